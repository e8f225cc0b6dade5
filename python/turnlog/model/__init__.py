"""What an application works with: turns, steps, tool calls, plans and tasks, each an append and a look at the state."""
