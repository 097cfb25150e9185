"""LIBLINEAR's ``predict``: labels or probabilities, one line a row."""

import os
import sys
from pathlib import Path
from typing import Any

from blocklinear.cli.liblinear.arguments import PredictArguments
from blocklinear.errors import BlocklinearError, StorageError, UsageError, shown
from blocklinear.inputs.urls import shown_name


def predict(arguments: PredictArguments, given: dict[str, Any]) -> None:
    """Do what the arguments ask for.

    Raises BlocklinearError.

    Parameters
    ----------
    given : dict              ``memory_bytes`` and ``threads``, where they were given
    """
    from blocklinear.model.linear import LinearModel
    from blocklinear.model.metrics import AccuracyCounter
    from blocklinear.model.predict import predict_stream, text_memory
    from blocklinear.outputs import Output
    from blocklinear.text import TextOptions

    if not os.path.exists(arguments.text):
        raise StorageError(f"can't open input file {shown_name(arguments.text)}", "check its name")
    try:
        output = Output(Path(arguments.output), [arguments.text, arguments.model])
    except BlocklinearError as error:
        raise StorageError(
            f"can't open output file {arguments.output}: {error.what}", error.fix
        ) from error
    try:
        model = LinearModel.load(arguments.model)
    except BlocklinearError as error:
        raise StorageError(
            f"can't open model file {arguments.model}: {error.what}", error.fix
        ) from error
    if arguments.probability and not model.is_logistic:
        raise UsageError("probability output is only supported for logistic regression")
    if "memory_bytes" in given:
        memory = text_memory(model.weights.nbytes, model.n_columns, given["memory_bytes"])
        given = given | {"memory_bytes": memory}
    report = predict_stream(
        model,
        [arguments.text],
        output,
        text_options=TextOptions(**given),
        probability=arguments.probability,
    )
    if not arguments.quiet:
        results = sys.stderr if output.is_stdout else sys.stdout
        score = report.score
        if isinstance(score, AccuracyCounter):  # LIBLINEAR prints it whatever the labels
            print(AccuracyCounter.summary(score), file=results)
        else:
            print(score.summary(), file=results)
    for note in report.notes:
        print(f"WARNING: {shown(note)}", file=sys.stderr)
