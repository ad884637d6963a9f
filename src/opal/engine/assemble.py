"""Builds the collaborators of a run and ties them together. The only place that knows them all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from opal.backends.base import Backend, BackendRun
from opal.config import RunConfig
from opal.decisions.agenda import Agenda
from opal.decisions.ask import AgentDesk, Answered
from opal.decisions.loss_history import LossMemory
from opal.decisions.schedule import Plan, default_cap, plan
from opal.decisions.untold import Untold
from opal.decisions.waiting import WaitPolicy
from opal.decisions.worker import DecisionWorker
from opal.distributed.coordinator import Coordinator
from opal.engine.activations import ActivationTap
from opal.engine.agent_optimizer import AgentOptimizer
from opal.engine.apply_update import UpdateApplier
from opal.engine.check import Checker
from opal.engine.closing import Closing
from opal.engine.decide import Decisions
from opal.engine.facts import gather_facts
from opal.engine.installation import changed_files, source_checkout
from opal.engine.journal import Journal, Progress
from opal.engine.losses import LossRing
from opal.engine.measure import Measurement, updates_per_epoch
from opal.engine.recover import Recovery
from opal.engine.run_parts import RunParts
from opal.engine.run_record import RunRecord
from opal.engine.step_hooks import InnerHooks
from opal.engine.swap import ProgramSwitch
from opal.engine.timeline import Timeline
from opal.engine.timing import UpdateClock
from opal.engine.upkeep import Upkeep
from opal.engine.user_optimizers import UserOptimizers
from opal.engine.user_schedulers import UserSchedulers
from opal.kit import role as role_of
from opal.programs.analysis import load_analysis
from opal.programs.contract import ProgramFiles
from opal.programs.load import ProgramModules
from opal.programs.running import build_program
from opal.programs.slots import ProgramSlots
from opal.programs.starting import STARTING_VERSION, starting_program
from opal.prompts.system_prompt import render_system_prompt
from opal.prompts.templates import check_template
from opal.prompts.workspace import prepare_workspace
from opal.records import events
from opal.records.log import inform, open_log, warn
from opal.records.run_folder import RunFolder, new_run_folder, remove_run_folder
from opal.records.writer import RecordWriter
from opal.types import GroupRate, RunFacts


@dataclass(frozen=True, kw_only=True)
class Script:
    """What the training script gave: checked, not yet touched."""

    optimizers: list[torch.optim.Optimizer]
    schedulers: list[LRScheduler]
    model: torch.nn.Module


def assemble(script: Script, config: RunConfig, backend: Backend, coordinator: Coordinator) -> AgentOptimizer:
    """Build everything, start the records, and hand the wrapped optimizer back.

    Whatever is wrong with the arguments is found before the run folder is made, and before anything of the script's is
    touched.
    """
    open_log()
    decision_plan = _plan(config)
    check_template(config)
    optimizers = UserOptimizers(script.optimizers, script.model)
    tap = ActivationTap(script.model, config.update.activations)
    facts = gather_facts(
        optimizers,
        script.schedulers,
        script.model,
        world_size=coordinator.world_size,
        activations=config.update.activations,
    )
    folder = None
    try:
        system = render_system_prompt(config, facts)
        folder = new_run_folder(config.records.run_dir)
        backend.setup(_backend_run(folder, config))
        files = starting_program(config.decisions.every)
        references = prepare_workspace(folder, files.texts, config, facts)
        build = _Build(script, config, optimizers, coordinator, folder)
        wrapped = build.wrapped(backend, tap, decision_plan, files, facts, system, references)
    except BaseException:
        tap.close()
        if folder is not None:
            remove_run_folder(folder)
        raise
    build.announce(decision_plan, backend)
    return wrapped


class _Build:
    """Builds the parts in order; each step leaves what later ones need."""

    def __init__(
        self,
        script: Script,
        config: RunConfig,
        optimizers: UserOptimizers,
        coordinator: Coordinator,
        folder: RunFolder,
    ) -> None:
        self.script = script
        self.config = config
        self.optimizers = optimizers
        self.coordinator = coordinator
        self.folder = folder
        self.late = late = _Late()
        self.timeline = Timeline()
        self.clock = UpdateClock()
        self.progress = Progress(config.task.total_steps)
        self.losses = LossMemory()
        self.writer = RecordWriter(folder, warn=warn, on_commands=lambda commands: late.upkeep.commands(commands))
        self.journal = Journal(folder, self.writer, Untold(), self.progress)
        self.schedulers = UserSchedulers(
            list(script.schedulers), script.optimizers, lambda name: late.upkeep.adopted(name)
        )
        self.applier = UpdateApplier(optimizers.named_params, self.clock, InnerHooks(script.optimizers))

    def wrapped(
        self,
        backend: Backend,
        tap: ActivationTap,
        decision_plan: Plan,
        files: ProgramFiles,
        facts: RunFacts,
        system: str,
        references: tuple[str, ...],
    ) -> AgentOptimizer:
        """Everything, tied together."""
        slots = self._slots(files)
        self.applier.install(slots.running)
        switch = self._switch(slots)
        ring = LossRing(self.config.decisions.every)
        upkeep = self._upkeep(slots, ring)
        recovery = Recovery(slots=slots, applier=self.applier, switch=switch, on_failed=upkeep.failed)
        self.applier.on_failure(recovery.handle)
        measurement = self._measurement(slots, tap)
        worker: DecisionWorker[Answered] = DecisionWorker(self.timeline.interrupt)
        desk = AgentDesk(backend=backend, folder=self.folder, writer=self.writer, system=system, references=references)
        decisions = self._decisions(decision_plan, desk, worker, slots, switch, measurement, upkeep)
        checker = self._checker(ring, slots, measurement, decisions)
        record = RunRecord(self.folder, self.writer, self.config, facts)
        closing = Closing(
            journal=self.journal,
            progress=self.progress,
            checker=checker,
            decisions=decisions,
            worker=worker,
            backend=backend,
            slots=slots,
            clock=self.clock,
            upkeep=upkeep,
            optimizers=self.optimizers,
            tap=tap,
            record=record,
        )
        self.late.upkeep = upkeep
        self.late.optimizer = self._optimizer(ring, slots, decisions, upkeep, closing)
        upkeep.begin(checker, decisions)
        self._start_records(record, decision_plan, backend, files, system)
        return self.late.optimizer

    def announce(self, decision_plan: Plan, backend: Backend) -> None:
        """The start-up lines."""
        count = len(decision_plan.updates)
        left_out = decision_plan.asked_for - count
        note = f" ({left_out} of {decision_plan.asked_for} fall together or too near the end)" if left_out else ""
        where = f", the first at update {decision_plan.updates[0]}" if count else ""
        inform(f"run {self.folder.root}: {count} decisions by {backend.name}{where}{note}")
        if self.config.decisions.blocking == "auto":
            inform('blocking="auto" is experimental')

    def _slots(self, files: ProgramFiles) -> ProgramSlots:
        analysis = load_analysis(ProgramModules(STARTING_VERSION, files), self.config.decisions.every)
        starting = build_program(
            ProgramModules(STARTING_VERSION, files),
            analysis,
            self.optimizers.named_params,
            None,
            self._spec(1),
            is_starting=True,
        )
        return ProgramSlots(starting)

    def _switch(self, slots: ProgramSlots) -> ProgramSwitch:
        return ProgramSwitch(
            slots=slots,
            applier=self.applier,
            optimizers=self.optimizers,
            schedulers=self.schedulers,
            spec=self._spec,
            rates=self._rates,
            trial_steps=self.config.safety.trial_steps,
            snapshot_limit_bytes=self.config.safety.snapshot_limit_gb * 1e9,
            every=self.config.decisions.every,
            warn_once=self.journal.warn_once,
        )

    def _upkeep(self, slots: ProgramSlots, ring: LossRing) -> Upkeep:
        return Upkeep(
            timeline=self.timeline,
            slots=slots,
            applier=self.applier,
            optimizers=self.optimizers,
            clock=self.clock,
            journal=self.journal,
            progress=self.progress,
            ring=ring,
            trial_steps=self.config.safety.trial_steps,
        )

    def _measurement(self, slots: ProgramSlots, tap: ActivationTap) -> Measurement:
        task = self.config.task
        return Measurement(
            slots=slots,
            named_params=self.optimizers.named_params,
            clock=self.clock,
            tap=tap,
            total_steps=task.total_steps,
            updates_per_epoch=updates_per_epoch(
                epochs=task.epochs,
                total_steps=task.total_steps,
                train_size=task.train_size,
                batch_size=task.batch_size,
            ),
        )

    def _checker(self, ring: LossRing, slots: ProgramSlots, measurement: Measurement, decisions: Decisions) -> Checker:
        return Checker(
            every=self.config.decisions.every,
            timeline=self.timeline,
            ring=ring,
            coordinator=self.coordinator,
            slots=slots,
            losses=self.losses,
            measurement=measurement,
            decisions=decisions,
            journal=self.journal,
            clock=self.clock,
            progress=self.progress,
            rates=self._rates,
        )

    def _optimizer(
        self, ring: LossRing, slots: ProgramSlots, decisions: Decisions, upkeep: Upkeep, closing: Closing
    ) -> AgentOptimizer:
        return AgentOptimizer(
            RunParts(
                progress=self.progress,
                timeline=self.timeline,
                ring=ring,
                applier=self.applier,
                upkeep=upkeep,
                slots=slots,
                optimizers=self.optimizers,
                schedulers=self.schedulers,
                decisions=decisions,
                journal=self.journal,
                clock=self.clock,
                closing=closing,
                folder=self.folder,
            )
        )

    def _spec(self, update: int) -> dict[str, Any]:
        """What `build` is told, for a program that begins with `update`."""
        return {
            "total_updates": self.config.task.total_steps,
            "update": update,
            "world_size": self.coordinator.world_size,
            "rank": self.coordinator.rank,
            "user_optimizers": list(self.script.optimizers),
            "user_schedulers": list(self.schedulers.schedulers),
            "clip_grad_norm": self.config.update.clip_grad_norm,
            "bounds": self.config.update.bounds,
        }

    def _rates(self) -> list[Any]:
        """The learning rates in force, one per group."""
        return [group.get("lr", math.nan) for group in self.late.optimizer.param_groups]

    def _group_rates(self) -> tuple[GroupRate, ...]:
        """The same with what the agent needs to know a group again."""
        names = {id(param): name for name, param in self.optimizers.named_params}
        groups = [group for group in self.late.optimizer.param_groups if group["params"]]
        return tuple(
            GroupRate(
                tensors=len(group["params"]),
                first_role=role_of(names[id(group["params"][0])]),
                rate=float(group.get("lr", math.nan)),
            )
            for group in groups
        )

    def _decisions(
        self,
        decision_plan: Plan,
        desk: AgentDesk,
        worker: DecisionWorker[Answered],
        slots: ProgramSlots,
        switch: ProgramSwitch,
        measurement: Measurement,
        upkeep: Upkeep,
    ) -> Decisions:
        options = self.config.decisions
        cap = default_cap(decision_plan) if options.max_decisions is None else options.max_decisions
        return Decisions(
            agenda=Agenda(decision_plan, cap),
            desk=desk,
            worker=worker,
            policy=WaitPolicy(options.blocking, options.max_lag_updates),
            slots=slots,
            switch=switch,
            journal=self.journal,
            losses=self.losses,
            measurement=measurement,
            clock=self.clock,
            progress=self.progress,
            show_next=options.show_next_decision,
            pause_on_nonfinite=options.pause_on_nonfinite,
            rates=self._group_rates,
            on_swapped=upkeep.swapped,
        )

    def _start_records(
        self,
        record: RunRecord,
        decision_plan: Plan,
        backend: Backend,
        files: ProgramFiles,
        system: str,
    ) -> None:
        checkout = source_checkout()
        changed = () if checkout else changed_files()
        record.started(checkout=checkout, changed=changed, decision_updates=decision_plan.updates)
        self.writer.text(self.folder.system, system)
        self.writer.program(STARTING_VERSION, files.texts)
        self.writer.text(self.folder.final, STARTING_VERSION + "\n")
        self.journal.record(
            events.RunStarted,
            total_steps=self.config.task.total_steps,
            decision_updates=decision_plan.updates,
            dropped=decision_plan.dropped,
            backend=backend.name,
        )
        if changed:
            self.journal.record(events.InstallationChanged, files=changed)
            some = ", ".join(changed[:3]) + (" …" if len(changed) > 3 else "")
            self.journal.warn(
                f"{len(changed)} files of the installed opal-optimizer differ from its record ({some}): reinstall it, "
                "or keep in mind that this run is not that version's"
            )
        self.writer.start()


class _Late:
    """What is known only when everything is built."""

    upkeep: Upkeep
    optimizer: AgentOptimizer


def _plan(config: RunConfig) -> Plan:
    options = config.decisions
    return plan(config.task.total_steps, options.every, options.decisions, options.schedule)


def _backend_run(folder: RunFolder, config: RunConfig) -> BackendRun:
    return BackendRun(
        root=folder.root,
        workspace=folder.workspace,
        goal=config.task.goal,
        total_steps=config.task.total_steps,
        options=config.agent.backend_options,
    )
