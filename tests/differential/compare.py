"""What a case says when it is not as the other program has it."""
import numpy as np


class Difference(Exception):
    """Ours and theirs are not the same."""


class Refused(Exception):
    """The library refuses what the other program takes, in so many words: no difference, but counted."""


def same(ours, theirs, what: str) -> None:
    if ours != theirs:
        raise Difference(f"{what}\n  ours   {ours!r}\n  theirs {theirs!r}")


def close(ours, theirs, what: str, absolute: float, relative: float = 0.0) -> None:
    """Every number within absolute + relative * |theirs|."""
    ours, theirs = np.atleast_1d(np.asarray(ours, np.float64)), np.atleast_1d(np.asarray(theirs, np.float64))
    if ours.shape != theirs.shape:
        raise Difference(f"{what}: shape {ours.shape}, theirs {theirs.shape}")
    if not ours.size:
        return
    error = np.abs(ours - theirs)
    error[~np.isfinite(error)] = np.where(ours == theirs, 0, np.inf)[~np.isfinite(error)]
    excess = error - absolute - relative * np.abs(theirs)
    if (excess > 0).any():
        at = np.unravel_index(int(np.argmax(excess)), ours.shape)
        place = ", ".join(str(int(i)) for i in at)
        raise Difference(f"{what}: off by {error[at]:.3g} at ({place}): ours {ours[at]:.9g}, "
                         f"theirs {theirs[at]:.9g}; {int((excess > 0).sum())} of {ours.size} numbers")
