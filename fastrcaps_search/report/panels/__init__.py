"""What a report says, gathered before anything is drawn."""
