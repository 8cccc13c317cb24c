"""Version trials: several schedulers, releases and configurations on the same exercises, scenarios and manifests, compared."""
