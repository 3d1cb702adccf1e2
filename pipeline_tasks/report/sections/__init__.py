"""The sections of a report, a file each: what it asks the lineage, what it says, and how it is drawn."""
