"""The pages: what each shows, and which command each button runs.

Pages are made of files (:mod:`tulle._app.study`); a request that changes something is a POST or a
PUT and ends in a redirection. Addresses hold ids, never names.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from tulle._app import families, jobs, views
from tulle._app.study import Study, found_in, is_table_name
from tulle._files import BINARY
from tulle._report.words import GATE_WORDS
from tulle.errors import DataError, ParameterError, TulleError
from tulle.exploring._points import Point
from tulle.table.policy import CONTEXT, load_policy
from tulle.table.schema import Role

Answer = Callable[[Request, Study], Response]
Form = dict[str, str]
Work = Callable[[Request, Study, Form], Response]
Files = dict[str, tuple[Path, str]]

_FORM = 1 << 20  # bytes of a form
LIMIT = 2 << 30  # bytes of an upload
_OWN_PAGE = "sandbox allow-scripts; frame-ancestors 'none'"  # of a report: it brings its own policy
_WARM = 60.0  # seconds that a chart waits for what another thread imports
_TICK = 1.0  # seconds between two looks at a running job


def application(root: Path, *, limit: int = LIMIT) -> Starlette:
    """Return the app of a folder, to be put behind a guard."""
    app = Starlette(
        routes=[
            Route("/", _start),
            Route("/demo", _demo, methods=["POST"]),
            Route("/upload", _upload, methods=["PUT"]),
            Route("/history", _history),
            Route("/static/{name}", _static),
            Route("/t/{id}", of(_home)),
            Route("/t/{id}/data", of(_data)),
            Route("/t/{id}/inspect", _doing(_inspect), methods=["POST"]),
            Route("/t/{id}/first", _doing(_first), methods=["POST"]),
            Route("/t/{id}/roles", of(_page("roles"))),
            Route("/t/{id}/column", _doing(_column), methods=["POST"]),
            Route("/t/{id}/undo", _doing(_undo), methods=["POST"]),
            Route("/t/{id}/linked-column", _doing(_linked_column), methods=["POST"]),
            Route("/t/{id}/context", of(_page("context"))),
            Route("/t/{id}/context", _doing(_keep_context), methods=["POST"]),
            Route("/t/{id}/explore", of(_page("explore"))),
            Route("/t/{id}/explore", _doing(_start_explore), methods=["POST"]),
            Route("/t/{id}/points/{point}", of(_point)),
            Route("/t/{id}/points/{point}/report", of(_point_report)),
            Route("/t/{id}/points/{point}/charts/{chart}", of(_point_chart)),
            Route("/t/{id}/charts/{chart}", of(_chart)),
            Route("/t/{id}/compare", of(_compare)),
            Route("/t/{id}/release", of(_page("release"))),
            Route("/t/{id}/release", _doing(_start_release), methods=["POST"]),
            Route("/t/{id}/releases/{number:int}", of(_one_release)),
            Route("/t/{id}/releases/{number:int}/prove", _doing(_prove), methods=["POST"]),
            Route("/t/{id}/releases/{number:int}/restore", _doing(_restore), methods=["POST"]),
            Route("/t/{id}/releases/{number:int}/look", of(_look)),
            Route("/t/{id}/releases/{number:int}/charts/{chart}", of(_release_chart)),
            Route("/t/{id}/releases/{number:int}/{word}", of(_file)),
            *[Route(f"/t/{{id}}/{step}", of(_task(step))) for step in families.STEPS],
            *[
                Route(f"/t/{{id}}/{step}", _doing(_start_task(step)), methods=["POST"])
                for step in families.STEPS
            ],
            Route("/t/{id}/stream", of(_stream)),
            Route("/t/{id}/files/{step}/{word}", of(_task_file)),
            Route("/t/{id}/cancel", _doing(_cancel), methods=["POST"]),
            Route("/t/{id}/events", _events),
        ],
        exception_handlers={404: _not_found, TulleError: _wrong, 500: _broken},
    )
    app.state.root, app.state.limit = root, limit
    return app


def _static(request: Request) -> Response:
    """Return a file of the app itself; their names are known, nothing else can be had."""
    name = request.path_params["name"]
    kinds = {"style.css": "text/css", "app.js": "text/javascript", "htmx.js": "text/javascript"}
    headers = {"Cache-Control": "private, max-age=3600"}  # no data in them
    if name == "vega.js":
        from tulle._report.render import bundle

        return Response(bundle(), media_type="text/javascript", headers=headers)
    if name not in kinds:
        return _not_found(request, KeyError())
    path = Path(__file__).parent / "static" / name.replace("htmx.js", "htmx.min.js")
    text = path.read_text("utf-8")
    if name == "style.css":
        from tulle._report.render import stylesheet

        text = stylesheet() + text
    return Response(text, media_type=kinds[name], headers=headers)


# -- start and history ------------------------------------------------------------------------


def _start(request: Request) -> Response:
    root = request.app.state.root
    return _shown("start.html", None, folder=root.name, **views.start(root))


async def _demo(request: Request) -> Response:
    """Write the table of the demo into the folder, unless it is there."""
    return await run_in_threadpool(_write_demo, request.app.state.root)


def _write_demo(root: Path) -> Response:
    views.warm.wait(_WARM)
    from tulle._commands.demo import breast_cancer
    from tulle.io.write import write_table

    study = Study(root, "demo-patients.csv")
    if not study.source.exists():
        write_table(breast_cancer(), study.source)
    if not study.is_inspected:
        study.start_inspection()
    return to(study, "data")


async def _upload(request: Request) -> Response:
    """Stream the body into a file of the folder that only its owner may read."""
    root, limit = request.app.state.root, request.app.state.limit
    name = unquote(request.headers.get("x-name", ""))
    if not is_table_name(name):
        raise ParameterError("the name of an upload must be that of a table file, without folders")
    target = root / name
    if os.path.lexists(target):
        raise ParameterError(f"{name} is in the folder already: nothing was replaced")
    hidden = root / f".{os.getpid()}-{os.urandom(8).hex()}.part"
    try:
        await _receive(request, hidden, limit)
        os.link(hidden, target)  # unlike a renaming it replaces nothing
    except FileExistsError:
        raise ParameterError(f"{name} is in the folder already: nothing was replaced") from None
    except ClientDisconnect:
        return Response(status_code=400)
    finally:
        hidden.unlink(missing_ok=True)
    study = Study(root, name)
    await run_in_threadpool(study.start_inspection)
    return PlainTextResponse(f"/t/{study.id}/data", 201)


async def _receive(request: Request, path: Path, limit: int) -> None:
    declared = request.headers.get("content-length", "0")
    if not declared.isdigit() or int(declared) > limit:
        raise ParameterError(f"an upload may have at most {limit:,} bytes: copy the file instead")
    count = 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        async for block in request.stream():
            count += len(block)
            if count > limit:
                raise ParameterError(
                    f"an upload may have at most {limit:,} bytes: copy the file instead"
                )
            await run_in_threadpool(file.write, block)


def _history(request: Request) -> Response:
    return _shown("history.html", None, runs=views.history(request.app.state.root))


# -- data, roles, context ---------------------------------------------------------------------


def _home(request: Request, study: Study) -> Response:
    last = study.releases()[-1:]
    return to(study, f"releases/{last[0].number}" if last else "data")


def _data(request: Request, study: Study) -> Response:
    from tulle.io.read import read_schema

    header = [] if study.is_inspected else list(read_schema(study.address))
    more = views.data(study) if study.is_inspected else {}
    return _live_page(request, study, "data", job=study.job("inspect"), header=header, **more)


def _page(step: str) -> Answer:
    """Make the page of a step of which there is something to show once the table was read."""

    def answer(request: Request, study: Study) -> Response:
        if not study.is_inspected:
            return to(study, "data")
        return _live_page(request, study, step, **getattr(views, step)(study))

    return answer


def _inspect(request: Request, study: Study, form: Form) -> Response:
    """Read the table; a policy that is there already is kept."""
    study.start_inspection()
    return to(study, "data")


def _first(request: Request, study: Study, form: Form) -> Response:
    """Keep who is counted and what names people, and make the first release."""
    _needs(study.is_inspected, "the table was not read yet: begin with its data")
    if form.get("unit") not in ("row", "person"):
        raise ParameterError("say what one row is: a person, or one of several rows of a person")
    names = [column.name for column in study.policy.columns]
    kept_out = {names.index(name) for name in study.policy.named(Role.PERSON)}  # or is counted by
    study.set_person(_number_in(form, "column") if form["unit"] == "person" else None)
    kept_out |= {int(place) for place in families.checked(form, "out")}
    if form.get("also", "").isdigit():
        kept_out.add(int(form["also"]))
    study.keep_out(kept_out)
    if form.get("then") == "roles":
        return to(study, "roles")
    return to(study, f"releases/{study.start_release().number}")


def _column(request: Request, study: Study, form: Form) -> Response:
    """Change a column, or all that are shown, and show the columns and the policy again."""
    kind, role = form.get("kind") or None, form.get("role") or None
    if "columns" in form:
        places = [int(place) for place in form["columns"].split(",") if place.isdigit()]
        _needs(bool(places), "no column is shown: nothing was changed")
        study.set_column(*places, kind=kind, role=role)
    else:
        study.set_column(_number_in(form, "column"), kind=kind, role=role)
    if request.headers.get("hx-request"):
        return _live_page(request, study, "roles", **views.roles(study))
    return to(study, "roles")


def _linked_column(request: Request, study: Study, form: Form) -> Response:
    """Change a column of linked tables, and show the page again."""
    kind, role = form.get("kind") or None, form.get("role") or None
    families.set_linked_column(study, _number_in(form, "column"), kind, role)
    if request.headers.get("hx-request"):
        return _live_page(request, study, "linked", "task", **families.task(study, "linked"))
    return to(study, "linked")


def _undo(request: Request, study: Study, form: Form) -> Response:
    """Take the last change of the policy back; done twice, it is there again."""
    _needs(study.before.is_file(), "nothing was changed yet")
    study.keep_policy(load_policy(study.before))
    return to(study, "roles")


def _keep_context(request: Request, study: Study, form: Form) -> Response:
    from dataclasses import replace

    told = {name: form.get(name, "") for name in CONTEXT}
    study.keep_policy(replace(study.policy, context=told))
    names = [column.name for column in study.policy.columns]
    target = form.get("target", "")
    if target.isdigit() and int(target) < len(names):
        study.set_column(int(target), role=Role.TARGET)
    elif study.column_with(Role.TARGET) is not None:
        study.set_column(names.index(study.column_with(Role.TARGET) or ""), role=Role.QUASI)
    gates = {name: _limit(form, name) for name in GATE_WORDS}
    if study.column_with(Role.TARGET) is None:
        gates["min_accuracy_ratio"] = None
    study.set_parameters("explore", gates)
    preset = form.get("preset", "")
    size = int(preset) if preset.isdigit() else None
    study.set_parameters("audit", {**gates, "preset": size})
    return to(study, "release")


def _limit(form: Form, name: str) -> float | None:
    """Return a gate: a percentage in a form, a share in the policy."""
    text = form.get(name, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise ParameterError(f"the limit {name.replace('_', ' ')} must be a number") from None
    if not 0 <= value <= 1000:
        raise ParameterError(f"the limit {name.replace('_', ' ')} must be from 0 to 100 %")
    return round(value / 100, 6)


# -- explore ----------------------------------------------------------------------------------


def _start_explore(request: Request, study: Study, form: Form) -> Response:
    sizes = [part.strip() for part in form.get("k", "").split(",") if part.strip()]
    if not sizes or not all(part.isdigit() and int(part) >= 2 for part in sizes):
        raise ParameterError("the group sizes k must be whole numbers from 2, such as 5, 10, 20")
    methods = [name for name in ("shape", "uniform") if form.get(name)] or ["shape"]
    found = {"k": [int(part) for part in sizes], "synthesis": methods}
    study.set_parameters("explore", found)
    study.start_explore(quick=bool(form.get("quick")))
    return to(study, "explore")


def _measured(study: Study, identity: str) -> Point:
    found = study.exploration()
    for point in [] if found is None else found.points:
        if point.id == identity:
            return point
    raise DataError("this result is not of the current answers: go back to Compare sizes")


def _point(request: Request, study: Study) -> Response:
    point = _measured(study, request.path_params["point"])
    return _shown("point.html", study, step="explore", **views.point(study, point))


def _point_report(request: Request, study: Study) -> Response:
    from tulle.exploring._points import audit_of

    point = _measured(study, request.path_params["point"])
    page = audit_of(point).html()
    return HTMLResponse(page, headers={"Content-Security-Policy": _OWN_PAGE})


def _point_chart(request: Request, study: Study) -> Response:
    point = _measured(study, request.path_params["point"])
    return _drawing(request, lambda name: views.point_chart(point, name))


def _chart(request: Request, study: Study) -> Response:
    makers = {"chart-frontier": views.frontier, "chart-history": families.stream_chart}
    return _drawing(request, lambda name: makers[name](study) if name in makers else None)


def _drawing(request: Request, rows_of: Callable[[str], views.Drawn | None]) -> Response:
    """Draw the chart that an address names, once what draws it is loaded."""
    views.warm.wait(_WARM)
    from tulle._charts import spec

    drawn = rows_of(request.path_params["chart"])
    return _not_found(request, KeyError()) if drawn is None else JSONResponse(spec(*drawn))


def _compare(request: Request, study: Study) -> Response:
    named = [request.query_params.get(word, "") for word in ("a", "b")]
    found = study.exploration()
    _needs(found is not None, "nothing has been measured yet with the current answers")
    return _shown("compare.html", study, step="explore", **views.compare(study, named))


# -- release ----------------------------------------------------------------------------------


def _start_release(request: Request, study: Study, form: Form) -> Response:
    """Make a release: of a measured point, of a given k, or of the smallest k that passes."""
    if form.get("then") == "compare":
        return to(study, f"compare?a={form.get('point', '')}")
    point = _measured(study, form["point"]) if form.get("point") else None
    _needs(point is None or (point.spec.is_release and not point.error), "this is not a release")
    changed = ""
    if form.get("leave"):
        (column,) = study.set_column(_number_in(form, "leave"), role=Role.IGNORED)
        changed = f"{column.name} was left out"
    size = form.get("k", "")
    if size and not (size.isdigit() and int(size) >= 2):
        raise ParameterError("k must be a whole number from 2, or empty to find the smallest")
    k, accept = int(size) if size else None, form.get("accept", "")
    ledger = bool(form.get("ledger"))
    made = study.start_release(k=k, point=point, accept=accept, changed=changed, ledger=ledger)
    return to(study, f"releases/{made.number}")


def _one_release(request: Request, study: Study) -> Response:
    made = study.release(request.path_params["number"])
    return _live_page(request, study, "made", **views.made(study, made))


def _look(request: Request, study: Study) -> Response:
    made = study.release(request.path_params["number"])
    named = [request.query_params.get(word, "") for word in ("x", "y")]
    return _shown("look.html", study, step="release", **views.look(made, named))


def _release_chart(request: Request, study: Study) -> Response:
    made = study.release(request.path_params["number"])
    return _drawing(request, lambda name: views.release_chart(study, made, name))


def _prove(request: Request, study: Study, form: Form) -> Response:
    made = study.release(request.path_params["number"])
    _needs(made.data.is_file(), "the release to compare with is missing")
    study.start_proof(made)
    return to(study, f"releases/{made.number}")


def _restore(request: Request, study: Study, form: Form) -> Response:
    """Take back what was changed since a release: its policy is that of the table again."""
    made = study.release(request.path_params["number"])
    study.keep_policy(made.policy)
    return to(study, "roles")


def _file(request: Request, study: Study) -> Response:
    made = study.release(request.path_params["number"])
    word, _, how = request.path_params["word"].partition("-")
    if word in ("report", "public") and word in made.files():
        page = HTMLResponse(
            views.report(made, word), headers={"Content-Security-Policy": _OWN_PAGE}
        )
        if not how:
            page.headers["Content-Disposition"] = f'attachment; filename="{word}.html"'
        return page
    return _handed_out(request, made.files(), f"{study.name.split('.')[0]}-{made.number}")


def _handed_out(request: Request, files: Files, name: str) -> Response:
    """Hand out a file that a command wrote; a report can also be read at once."""
    word, _, how = request.path_params["word"].partition("-")
    if word not in files or how not in ("", "shown"):
        return _not_found(request, KeyError())
    path = files[word][0]
    if how and path.suffix == ".html":
        return HTMLResponse(path.read_text(), headers={"Content-Security-Policy": _OWN_PAGE})
    return FileResponse(path, filename=f"{name.split('.')[0]}-{path.name}")


# -- baskets, texts, sites, streams -----------------------------------------------------------


def _task(step: str) -> Answer:
    def answer(request: Request, study: Study) -> Response:
        return _live_page(request, study, step, "task", **families.task(study, step))

    return answer


def _start_task(step: str) -> Work:
    def answer(request: Request, study: Study, form: Form) -> Response:
        families.start(study, step, form)
        return to(study, step)

    return answer


def _task_file(request: Request, study: Study) -> Response:
    step = request.path_params["step"]
    found = families.task(study, step)["files"] if step in families.STEPS else {}
    return _handed_out(request, found, study.name)


def _stream(request: Request, study: Study) -> Response:
    return _live_page(request, study, "stream", **families.stream(study))


# -- jobs -------------------------------------------------------------------------------------


def _cancel(request: Request, study: Study, form: Form) -> Response:
    step = form.get("step", "")
    views.job_of(study, step).cancel()
    return to(study, views.address(step))


async def _events(request: Request) -> Response:
    """Tell a page when there is something new; the page asks for it then.

    Each message stands for the whole state, so that none is missed where the browser was away.
    """
    study = await run_in_threadpool(_study_of, request)
    step = request.query_params.get("step", "")

    async def told() -> AsyncIterator[str]:
        before = ""
        while True:
            state, running = await run_in_threadpool(views.state, study, step)
            if not running:  # one message: a second refresh would undo what was typed meanwhile
                yield "event: end\ndata: end\n\n"
                return
            if state != before:
                yield f"data: {state}\n\n"
                before = state
            await anyio.sleep(_TICK)

    return StreamingResponse(told(), media_type="text/event-stream")


# -- how a request becomes an answer: the table that an address means, forms, pages, errors -------


def of(page: Answer) -> Callable[[Request], Response]:
    """Make a route of a page about one table."""

    def answer(request: Request) -> Response:
        return page(request, _study_of(request))

    return answer


def _doing(work: Work) -> Any:
    """Make a route of work on one table: the form is read first."""

    async def answer(request: Request) -> Response:
        form = await _read_form(request)
        study = await run_in_threadpool(_study_of, request)
        return await run_in_threadpool(work, request, study, form)

    return answer


def _study_of(request: Request) -> Study:
    """Return the table or other file that the address means."""
    found = found_in(request.app.state.root, request.path_params["id"])
    if found is None:
        raise DataError("this file is not in the folder any more: go back to the start")
    return found


async def _read_form(request: Request) -> Form:
    """Read a form as browsers send it; what is given twice counts once."""
    body = b""
    async for block in request.stream():
        body += block
        if len(body) > _FORM:
            raise ParameterError(f"a form of more than {_FORM:,} bytes is not read")
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=5000)
    return {name: values[-1].strip() for name, values in fields.items()}


def _shown(template: str, study: Study | None, *, status: int = 200, **more: Any) -> HTMLResponse:
    """Return a whole page."""
    jobs.reap()
    return HTMLResponse(views.rendered(template, study, **more), status)


def _live_page(
    request: Request, study: Study, step: str, template: str = "", **more: Any
) -> HTMLResponse:
    """Return a page, or for a page that asks what is new, its changing part and the strip."""
    name = template or step
    if not request.headers.get("hx-request"):
        return _shown(f"{name}.html", study, step=step, **more)
    jobs.reap()
    live = views.rendered(f"live_{name}.html", study, step=step, **more)
    return HTMLResponse(live + views.rendered("strip.html", study, **more, again=True))


def to(study: Study, page: str) -> RedirectResponse:
    """Send the browser to a page of the same table."""
    return RedirectResponse(f"/t/{study.id}/{page}", 303)


def _not_found(request: Request, error: Exception) -> Response:
    """Say that an address means nothing."""
    return _shown("error.html", None, status=404, message="This page does not exist.", back="/")


def _wrong(request: Request, error: Exception) -> Response:
    """Say what a person did wrong, with the way back: messages name columns, never values."""
    study = found_in(request.app.state.root, request.path_params.get("id", ""))
    study = study if study is not None and is_table_name(study.source.name) else None
    before = urlsplit(request.headers.get("referer", "")).path
    back = before if before.startswith("/t/") else f"/t/{study.id}" if study else "/"
    message = str(error).replace(f"{request.app.state.root}{os.sep}", "")
    return _shown("error.html", study, status=400, message=message, back=back)


def _broken(request: Request, error: Exception) -> Response:
    """Show only the type of a foreign error: its text may quote a cell."""
    message = f"Something unexpected happened ({type(error).__name__}). Nothing was lost."
    return _shown("error.html", None, status=500, message=message, back="/")


def _number_in(form: Form, name: str) -> int:
    """Return a whole number of a form."""
    if not form.get(name, "").isdigit():
        raise ParameterError(f"choose a {name}")
    return int(form[name])


def _needs(there: bool, message: str) -> None:
    """Raise if a page is asked for before its time."""
    if not there:
        raise DataError(message)
