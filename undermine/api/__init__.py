"""Everything that the command line does, as functions for scripts.

Each function opens the files and processes that it needs and closes them before it returns. Never prints.
"""

from undermine.analysis.coverage import coverage_of
from undermine.api.checking import AgentSeen, CheckResult, check
from undermine.api.demo import demo_config
from undermine.api.hunting import HuntResult, hunt
from undermine.api.opening import silent
from undermine.api.planning import PlanResult, Predicted, plan
from undermine.api.replaying import recheck, replay, replay_bundle, replay_plans
from undermine.api.results import results
from undermine.api.stored import (
    bundle,
    clean,
    explanations,
    findings,
    issue,
    log_files,
    new_logs,
    partition_ends,
    plans,
    regression_tests,
    remarks,
    suppress,
    suppressions,
    today,
    unsuppress,
    write_baseline,
)
from undermine.api.tracing import TraceResult, trace, trace_stored
from undermine.campaign.replaying import ReplayResult
from undermine.campaign.running import Listener, Notice
from undermine.exchange.jepsen import read as read_history
from undermine.exchange.plan_file import read as read_plans
from undermine.store.campaign_dirs import campaign_dir, open_store

__all__ = [
    "AgentSeen",
    "CheckResult",
    "HuntResult",
    "Listener",
    "Notice",
    "PlanResult",
    "Predicted",
    "ReplayResult",
    "TraceResult",
    "bundle",
    "campaign_dir",
    "check",
    "clean",
    "coverage_of",
    "demo_config",
    "explanations",
    "findings",
    "hunt",
    "issue",
    "log_files",
    "new_logs",
    "open_store",
    "partition_ends",
    "plan",
    "plans",
    "read_history",
    "read_plans",
    "recheck",
    "regression_tests",
    "remarks",
    "replay",
    "replay_bundle",
    "replay_plans",
    "results",
    "silent",
    "suppress",
    "suppressions",
    "today",
    "trace",
    "trace_stored",
    "unsuppress",
    "write_baseline",
]
