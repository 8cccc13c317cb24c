"""Whose turn it is: what each queue is due and may have, and the order in which jobs are served and give up what they hold."""
