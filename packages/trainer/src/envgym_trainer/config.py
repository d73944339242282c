"""Every key of ours: dataclasses that hydra checks a command line against. Open sections say so.

Each field is documented by the string below it; ``scripts/config_docs.py`` makes ``docs/config.md`` from them.
"""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass
class EnvShare:
    """One env of a run, as the config is resolved to."""

    weight: float = 1.0
    """Its share of the tasks, relative to the other envs'."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Arguments of its class."""


@dataclass
class ModelSection:
    """The policy."""

    name: str = MISSING
    """What run folders call the model."""
    path: str | None = MISSING
    """Model folder in Hugging Face's layout, with tokenizer and chat template. ``model=FOLDER`` sets it."""
    recipe: str | None = None
    """Instead of a path: function that makes the model at first use, as ``package.module:function``."""
    convert: str | None = None
    """Instead of a path: function that writes the model folder at first use, as ``package.module:function``."""
    seed: int = 0
    """Of a recipe. The same warm start serves every ``seed`` of a run."""
    dtype: str = "float32"
    """``float32`` or ``bfloat16``: of the weights and the arithmetic, in the trainer and, through
    ``engine.args.dtype``, in the engine. With bfloat16 the optimizer keeps float32 master weights."""
    lr: float = MISSING
    """Learning rate that suits the model; ``algorithm.lr`` follows it."""
    max_turn_tokens: int = MISSING
    """Ids that a turn of the model needs at most; ``sampling.max_turn_tokens`` follows it."""
    max_rollout_tokens: int = MISSING
    """Ids that the model can be fed; ``sampling.max_rollout_tokens`` follows it."""
    tasks_per_step: int = 24
    """Tasks of a step that suit the model; ``tasks_per_step`` at the top follows it."""
    group_size: int = 8
    """Rollouts of a task that suit the model; ``group_size`` at the top follows it."""
    eval_tasks: int = 500
    """Tasks of an evaluation that suit the model; ``eval.tasks`` follows it."""


@dataclass
class EngineSection:
    """What samples the tokens."""

    target: str = MISSING
    """Function that builds the engine, as ``package.module:function``."""
    args: dict[str, Any] = field(default_factory=dict)
    """Open: arguments of that function, checked by it."""


@dataclass
class GeneratorSection:
    """What plays the rollouts."""

    target: str = MISSING
    """Function that builds the generator, as ``package.module:function``."""
    path: str | None = MISSING
    """Of ``generator=replay``: the saved GeneratorOutput (a file of ``rollouts/``) to train on."""
    max_failed_share: float = 0.5
    """Failed rollouts ÷ all of a step, above which the run stops."""
    template_arguments: dict[str, Any] = field(default_factory=dict)
    """Open: variables of the chat template, such as ``enable_thinking``."""
    isolation: dict[str, Any] = field(default_factory=dict)
    """Open: by env, ``inline``, ``thread`` or ``process``. Where an env runs is otherwise for its class to say."""
    env_workers: int | None = None
    """Processes of each env that runs in processes. By default as many as there are cores."""


@dataclass
class SamplingSection:
    """How tokens are drawn."""

    temperature: float = 1.0
    """Logits are divided by it, while sampling and in the loss. Above 0 for training; 0 is greedy."""
    top_p: float = 1.0
    """1 is off, as training needs."""
    top_k: int = 0
    """0 is off, as training needs."""
    min_p: float = 0.0
    """0 is off, as training needs."""
    max_turn_tokens: int = MISSING
    """Most ids sampled in one turn."""
    max_rollout_tokens: int = MISSING
    """Most ids (prompt and completion so far) that a turn may be fed."""
    stop: list[str] = field(default_factory=list)
    """Stop strings, added to the env's own."""
    append_eos_after_stop: bool = True
    """Whether a turn that ended by a stop string is closed as the chat template closes it."""


@dataclass
class EvalSection:
    """Playing held-out tasks."""

    tasks: int = 500
    """Tasks of each env's eval split, the same ones every time; 0 for no evaluation."""
    samples: int = 1
    """Rollouts of each task."""
    seed: int = 0
    """Of the choice of tasks and of the sampling. Apart from ``seed``, so that runs can be compared."""
    sampling: SamplingSection = field(default_factory=SamplingSection)
    """As for training, which it follows key by key there. May use top-p, top-k and min-p."""


@dataclass
class TrainEvalSection(EvalSection):
    """Playing held-out tasks in the course of training."""

    every: int = 10
    """Steps between evaluations. One is always made before the first step and one after the last."""


@dataclass
class CheckpointSection:
    """Saving the model."""

    every: int = 25
    """Steps between saves; 0 saves at the end only."""


@dataclass
class AlgorithmSection:
    """From rewards to an update."""

    advantage: str = MISSING
    """``grpo``, ``rloo``, ``reinforce_pp``, or a function of your own as ``package.module:function``."""
    normalize_by_std: bool = False
    """``grpo``: whether a group's advantages are also divided by the standard deviation of its returns."""
    gamma: float = 1.0
    """``reinforce_pp``: discount per trained token."""
    permute_rewards: bool = False
    """A control: deals the rewards of a step out to its rollouts at random. Nothing should be learned."""
    reduction: str = "token_mean"
    """``token_mean``, ``sequence_mean`` (mean over rollouts of the mean over a rollout's tokens), or
    ``fixed_length`` (mean over rollouts of the sum over a rollout's tokens ÷ ``fixed_length``)."""
    fixed_length: int | None = None
    """Denominator of ``reduction=fixed_length``."""
    clip_low: float = 0.2
    """The ratio of policies is clipped at 1 − this from below."""
    clip_high: float = 0.2
    """The ratio of policies is clipped at 1 + this from above."""
    dual_clip: float | None = None
    """Where the advantage is negative, its loss is at most this times its size. Off by default."""
    entropy_coef: float = 0.0
    """Weight of the mean entropy, which is added to what is maximised."""
    kl_coef: float = 0.0
    """Weight of the divergence from the reference policy, the model as it was before training, which is added to
    the loss. The reference takes memory and a forward pass only where this is above 0."""
    kl_estimator: str = "k3"
    """``k1``, ``k2`` or ``k3``: how the divergence is estimated from the sampled tokens. ``k1`` is for looking at:
    as a loss it has no effect in the mean."""
    updates_per_step: int = 1
    """Updates that the rollouts of a step are divided over, by whole groups."""
    micro_batch_tokens: int = 4096
    """Most ids (padding included) in one forward pass. Memory and speed depend on it, the update does not."""
    logits_chunk_tokens: int = 1024
    """Trained positions whose logits are held at once."""
    lr: float = MISSING
    """Highest learning rate."""
    schedule: str = "constant"
    """Of the learning rate: ``constant``, ``linear`` or ``cosine``; the last two end at 0."""
    warmup_steps: int = 0
    """Steps in which the learning rate rises from 0."""
    weight_decay: float = 0.0
    """Of AdamW."""
    adam_beta1: float = 0.9
    """Of AdamW."""
    adam_beta2: float = 0.999
    """Of AdamW."""
    adam_eps: float = 1e-8
    """Of AdamW."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this norm; 0 leaves them as they are."""


@dataclass
class ParitySection:
    """Agreement of the trainer's log-probabilities with the generator's, on the weights that sampled."""

    max_abs_diff: float | None = None
    """Largest difference of one token that the first step of a run accepts. By default 1e-4 with
    ``model.dtype=float32``, and no bound with bfloat16."""
    mean_abs_diff: float | None = None
    """Largest mean difference that it accepts. By default no bound with float32, and 0.02 with bfloat16."""
    abort_later: bool = False
    """Whether later steps stop the run too, instead of only reporting."""


@dataclass
class TrainConfig:
    """``trainer-train``: reinforcement learning on an env."""

    seed: int = 0
    """Of tasks, sampling and everything else that is random, but for the warm start and evaluation."""
    steps: int = 60
    """Number of updates of the generator's weights."""
    run_dir: str | None = None
    """Folder of the run; must not exist. By default ``runs/<env>-<model>-<time>``."""
    num_processes: int = 1
    """Processes to start on this machine, one per GPU where there are GPUs. Those that torchrun or the DeepSpeed
    launcher started need no such key."""
    rank_timeout_s: float = 1800.0
    """Seconds that one of several processes waits for the others before the run ends and says where it waited."""
    tasks_per_step: int = 24
    """Tasks played in a step, each ``group_size`` times."""
    group_size: int = 8
    """Rollouts of each task."""
    deterministic: bool = True
    """Whether the same command gives the same numbers, at some cost in speed."""
    env: dict[str, Any] = field(default_factory=dict)
    """Open: arguments of the env chosen by ``+env=NAME``, checked against its signature."""
    envs: dict[str, Any] = field(default_factory=dict)
    """Instead of ``+env``, a mixture: ``envs.NAME={weight: 1, arguments: {}}`` for each env in it."""
    model: ModelSection = field(default_factory=ModelSection)
    engine: EngineSection = field(default_factory=EngineSection)
    generator: GeneratorSection = field(default_factory=GeneratorSection)
    algorithm: AlgorithmSection = field(default_factory=AlgorithmSection)
    sampling: SamplingSection = field(default_factory=SamplingSection)
    """Of training."""
    eval: TrainEvalSection = field(default_factory=TrainEvalSection)
    checkpoint: CheckpointSection = field(default_factory=CheckpointSection)
    parity: ParitySection = field(default_factory=ParitySection)
    deepspeed: dict[str, Any] = field(default_factory=dict)
    """Open: DeepSpeed's own settings, checked by it."""


@dataclass
class EvalConfig:
    """``trainer-eval``: playing held-out tasks with a saved model."""

    run_dir: str | None = None
    """Folder for the results; must not exist. By default ``runs/<env>-<model>-<time>``."""
    deterministic: bool = True
    """Whether the same command gives the same numbers, at some cost in speed."""
    env: dict[str, Any] = field(default_factory=dict)
    """Open: arguments of the env chosen by ``+env=NAME``, checked against its signature."""
    envs: dict[str, Any] = field(default_factory=dict)
    """Instead of ``+env``, several: ``envs.NAME={arguments: {}}`` for each."""
    model: ModelSection = field(default_factory=ModelSection)
    engine: EngineSection = field(default_factory=EngineSection)
    generator: GeneratorSection = field(default_factory=GeneratorSection)
    eval: EvalSection = field(default_factory=EvalSection)


@dataclass
class SftConfig:
    """``trainer-sft``: imitating saved rollouts."""

    data: str = MISSING
    """File of a GeneratorOutput, whose trained tokens are imitated."""
    run_dir: str | None = None
    """Folder of the run; must not exist. By default ``runs/sft-<model>-<time>``."""
    seed: int = 0
    """Of the order of the examples."""
    steps: int = 1000
    """Number of updates."""
    batch_size: int = 16
    """Segments per step."""
    micro_batch_tokens: int = 4096
    """Most ids (padding included) in one forward pass."""
    lr: float = 1e-4
    """Highest learning rate."""
    schedule: str = "cosine"
    """Of the learning rate: ``constant``, ``linear`` or ``cosine``; the last two end at 0."""
    warmup_steps: int = 0
    """Steps in which the learning rate rises from 0."""
    weight_decay: float = 0.0
    """Of AdamW."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this norm; 0 leaves them as they are."""
    stop_below: float | None = None
    """End early once the mean loss of the last 10 steps is below this; not getting there is an error."""
    deadline_s: float | None = None
    """Seconds after which not having come below ``stop_below`` is an error."""
    model: ModelSection = field(default_factory=ModelSection)
    deepspeed: dict[str, Any] = field(default_factory=dict)
    """Open: DeepSpeed's own settings, checked by it."""
