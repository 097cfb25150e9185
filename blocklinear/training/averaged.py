"""Block averages: what Yu, 7.2, compares with."""

from collections.abc import Callable

from blocklinear.store.groups import Group
from blocklinear.training.descent import Descent


class AveragedBlocks(Descent):
    """AvgBlock (Yu, 7.2): each visit solves its rows alone; the model is the mean of their w.

    With alpha divided by the number of visits, w = sum s_i alpha_i x_i still holds, and alpha is
    feasible, so the certificate is one of the whole problem.
    """

    def begin(self) -> None:
        """Start an outer iteration, which owes nothing to the one before."""
        super().begin()
        self.w[:] = self._terms[:] = 0.0
        self.alpha.all[:] = 0.0

    def visit(
        self, group: Group, outer: int, number: int, visits: int, halt: Callable[[], bool]
    ) -> None:
        """Work on one group from zero."""
        total, terms = self.w.copy(), self._terms.copy()
        self.w[:] = 0.0
        super().visit(group, outer, number, visits, halt)
        self.w /= visits
        self.w += total
        alpha = self.alpha.read(group.blocks) / visits
        self.alpha.write(group.blocks, alpha)
        self._terms[:] = terms
        target, cost = self.problem.targets(group.labels), self.problem.costs(group)
        self._add_terms(target, cost, alpha, 1.0)
