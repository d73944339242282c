"""What trainer-sft does: load rollouts and a model, imitate, save."""

from pathlib import Path

from envgym_generator import storage
from envgym_generator.types import SetupError
from envgym_trainer.batch import make_rows
from envgym_trainer.config import SftConfig
from envgym_trainer.deepspeed_policy import DeepSpeedPolicy, OptimizerSection
from envgym_trainer.determinism import seed_everything
from envgym_trainer.interruption import Interruption
from envgym_trainer.model import load_model, save_model
from envgym_trainer.model_folder import fetch_model, is_hub_name
from envgym_trainer.progress import Progress
from envgym_trainer.run_folder import RunFolder
from envgym_trainer.sft import SftSection, SftStep, sft


def run_sft(config: SftConfig, folder: RunFolder, config_yaml: str, progress: Progress) -> None:
    """Train a model to imitate the rollouts of a file, and save it as ``checkpoints/step_<n>``.

    Raises:
        SetupError: if the file has no trained tokens.
        RunError: if ``stop_below`` was not reached.
        KeyboardInterrupt: after Ctrl-C, once the weights are saved.
    """
    rows = make_rows(storage.load(Path(config.data)))
    if not rows:
        raise SetupError(f"data={config.data} has no trained tokens; give rollouts that did not all fail")
    seed_everything(config.seed, deterministic=True)
    named = config.model.path or ""
    source = fetch_model(named) if is_hub_name(named) else Path(named)
    policy = DeepSpeedPolicy(
        load_model(source),
        OptimizerSection(
            weight_decay=config.weight_decay,
            max_grad_norm=config.max_grad_norm,
            dtype=config.model.dtype,
            deepspeed=config.deepspeed,
        ),
    )
    folder.make(config_yaml)
    progress.say(f"run folder: {folder.path}")
    steps_done = 0

    def write(target: Path) -> None:
        save_model(policy.model, policy.named_parameters(), source, target)

    with Interruption() as interruption, progress.track("imitation", config.steps) as advance:

        def report(done: SftStep) -> None:
            nonlocal steps_done
            steps_done = done.step
            folder.append_metrics(done.metrics())
            advance(f"loss {done.loss:.4f}")
            if interruption.requested:
                raise KeyboardInterrupt

        try:
            sft(policy, rows, sft_section(config), report)
        finally:
            if not interruption.insisted:
                path = folder.save_checkpoint(steps_done, write)
                progress.say(f"weights after step {steps_done} are in {path}")


def sft_section(config: SftConfig) -> SftSection:
    """The part of the config that the loop reads."""
    return SftSection(
        steps=config.steps,
        batch_size=config.batch_size,
        micro_batch_tokens=config.micro_batch_tokens,
        lr=config.lr,
        schedule=config.schedule,
        warmup_steps=config.warmup_steps,
        stop_below=config.stop_below,
        deadline_s=config.deadline_s,
        seed=config.seed,
    )
