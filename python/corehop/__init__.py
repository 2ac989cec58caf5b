# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measure what preemptions and migrations cost, and compute what they do to a schedule.

Measuring and planning are the work of the `corehop` program, which comes in the same package and runs
in a process of its own; files, summaries and platforms are read and made here, in process, and so are
schedulability tests and studies.

    >>> import corehop
    >>> result = corehop.load("quick.parquet")        # or corehop.measure("synthetic", samples=100)
    >>> result.kind, result.experiment
    ('samples', 'synthetic')
    >>> summary = result.summary()
    >>> sorted(set(summary.column("event")))
    ['flush', 'none', 'preemption']

A result and its summary are Arrow tables: `polars.DataFrame(result)`, `pyarrow.table(result)` and
`pandas.DataFrame.from_arrow(result)` take them without a copy. None of the three is required.
"""

from corehop._advice import (
    Advice,
    AdviceRule,
    AdvisedMove,
    AdvisedWait,
    Company,
    Constants,
    Estimate,
    Isolation,
    MigrationExtra,
    Partitioning,
    Prediction,
)
from corehop._answers import Answer, Arm, Figures, Gain, Trial
from corehop._binary import binary
from corehop._check import Schedulable, Task, check, limit_preemptions
from corehop._compare import compare
from corehop._corehop import Table, __version__
from corehop._errors import Damaged, Error, HostFailed, Interrupted, NotPossible, Unknown, Usage
from corehop._measure import measure, plan, record
from corehop._model import CostModel, advise, fit, predict
from corehop._off_load import OffLoad
from corehop._placement import Placement
from corehop._platform import Platform, platform
from corehop._program_costs import Cost, ProgramCosts, program_costs
from corehop._result import Result, Summary, load
from corehop._study import StudyResult, load_study, merge_studies, study
from corehop._verbs import doctor, offload, place, report, try_, validate

__all__ = [
    "Advice",
    "AdviceRule",
    "AdvisedMove",
    "AdvisedWait",
    "Answer",
    "Arm",
    "Company",
    "Constants",
    "Cost",
    "CostModel",
    "Damaged",
    "Error",
    "Estimate",
    "Figures",
    "Gain",
    "HostFailed",
    "Interrupted",
    "Isolation",
    "MigrationExtra",
    "NotPossible",
    "OffLoad",
    "Partitioning",
    "Placement",
    "Platform",
    "Prediction",
    "ProgramCosts",
    "Result",
    "Schedulable",
    "StudyResult",
    "Summary",
    "Table",
    "Task",
    "Trial",
    "Unknown",
    "Usage",
    "__version__",
    "advise",
    "binary",
    "check",
    "compare",
    "doctor",
    "fit",
    "limit_preemptions",
    "load",
    "load_study",
    "measure",
    "merge_studies",
    "offload",
    "place",
    "plan",
    "platform",
    "predict",
    "program_costs",
    "record",
    "report",
    "study",
    "try_",
    "validate",
]
