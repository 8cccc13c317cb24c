"""A table of all questions with what is wrong with each answer: ``python -m tests.explain [NAME ...]``, ``--quick`` without steps."""

from __future__ import annotations

import sys
import traceback

from kailab.explain.questions import ask
from tests.explain.situations import faults, opened, questions


def main(words: list[str]) -> int:
    quick = "--quick" in words
    asked = questions(*(word for word in words if not word.startswith("-")))
    right = 0
    for question in asked:
        try:
            with opened(question.situation) as lab:
                answer = ask(lab, question.kind, question.subject, question.namespace).data()
            wrong = list(faults(question, answer, tried=not quick))
        except Exception:  # a table shows all
            wrong = [traceback.format_exc(limit=-3).strip()]
            answer = {"cause": None}
        right += not wrong
        print(f"{'wrong' if wrong else 'right'}  {question.name} ({question.kind} {question.subject})")
        if answer["cause"]:
            print(f"       {answer['verdict']} {answer['cause']['code']}: {answer['cause']['sentence']}")
            for step in answer["steps"]:
                print(f"       {'checked' if step['checked'] else 'not checked'}: {step['do']}")
        for line in wrong:
            print(f"     - {line}")
    print(f"{right} of {len(asked)} right")
    return 0 if right == len(asked) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
