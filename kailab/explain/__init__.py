"""Why a pod, a PodGroup, a workload or a queue is as it is, and what would let waiting work run.

The path of a question:

- ``questions.growing_answer`` is the entry, which ``kailab.cli.explain`` prints part by part; ``questions.ask`` gives its last answer. ``subject`` has the subject and its pods at one
  moment; ``kailab.lab.answer`` has the classes of an answer.
- ``pending_work`` answers for work that waits. Its ``pending_causes`` has ``cause_groups`` ask the finders (``causes``) for the causes of
  each waiting group (``cause_kinds.find_causes``), and ``verdict`` decide whether the work can run later. Its ``pending_steps`` has
  ``step_search`` (``search_steps``, then ``StepTries``) try the step families (``steps``) on forks, within the ``step_budget``. A step function (``steps.*_steps``) takes a ``QuestionContext`` and yields ``ProposalFamily`` objects; their changes
  are data in the forms of ``kailab.lab.change``, which ``step_search`` carries out on the fork.
- ``cause_kinds`` has one entry for each cause, and the finders in order.
- ``evictions``, ``queues``, ``details``, ``serving_order`` and ``node_answers`` have the sentences about work that runs or was evicted, the
  arithmetic of queues, the scheduler's own words, the serving order and the table of ``explain --nodes``.
- ``kai_faults`` says where KAI would decide otherwise by a fault, or where the decision rests on an imitated one.
- ``evidence_answers`` answers from evidence alone, where nothing can be tried.
"""
