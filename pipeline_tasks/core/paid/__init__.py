"""What costs money: how an endpoint is asked, what was spent, and every answer, kept so that none is bought twice."""
