"""One scheduler replaced by the next while work runs, and back: how long nobody schedules, what is lost, who is deaf."""
