"""The agents of the example: each gets its work as a mapping, and answers with one."""  # noqa: INP001 - stands in its home

import time


def scout(work):
    """Hang: the router has to find somebody else."""
    while work:
        time.sleep(3600)


def writer(work):
    """Answer, and wish that the answer be remembered."""
    question = work["query"].rstrip("?")
    text = f"In short: {question} has an answer, and it took {work['attempt']} attempts."
    note = {"namespace": "answers", "key": work["job_id"], "value": text}
    return {
        "text": text,
        "confidence": 0.85,
        "tokens_used": len(text) // 4,
        "wm": [{"type": "fact", "value": text}],
        "actions": [{"action_type": "sem_write", "payload": note}],
    }


def analyst(work):
    """Check a statement."""
    return {"text": f"Checked: {work['query']}", "confidence": 0.9}


def librarian(work):
    """Never called for a write: a write is asked for, and others decide."""
    return {"text": f"Filed: {work['query']}", "confidence": 0.9}


def critic(asked):
    """Vote on an output."""
    is_long_enough = len(asked["output"]["text"]) > 20
    return {"approve": is_long_enough, "explain": "long enough" if is_long_enough else "too short"}
