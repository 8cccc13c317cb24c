"""What manifests mean to KAI, for schedulers under test that have other words: the queues that there will be, and the work of each
object, as KAI would group it."""
