"""The processes of one training, on a node or on several: where they meet, what they exchange, what they divide."""
