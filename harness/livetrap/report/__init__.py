"""What people and other programs see of a campaign: progress, tables, one trial in full, and JSON lines."""
