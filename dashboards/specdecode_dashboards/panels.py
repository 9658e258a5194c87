"""The few kinds of panels that there are, and what all dashboards have in common."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any, Final

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BigValueColorMode,
    BigValueGraphMode,
    DataSourceRef,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardCursorSync,
    DashboardLinkType,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Panel,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

TAG: Final = "specdecode"
SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")

OF_OBJECT: Final = 'namespace=~"$namespace",specdecode_name=~"$object"'
OF_REVISION: Final = f'{OF_OBJECT},specdecode_revision=~"$revision"'
"""Matchers of the series that a person has chosen."""

Query = tuple[str, str]
"""PromQL, and the legend of its series (of a table, the column of its value)."""

TOKENS: Final = "suffix: tokens"
PER_SECOND: Final = "suffix: /s"
TOKENS_A_SECOND: Final = "suffix: tokens/s"
HEIGHT: Final = 8
LOW: Final = 4
FLAT: Final = 6
"""Heights of a panel: with lines, with one number, with a few rows."""


# --- Panels -----------------------------------------------------------------------------------------------------------


def over_time(
    title: str,
    text: str,
    unit: str,
    *queries: Query,
    width: int = 8,
    stacked: bool = False,
    top: float | None = None,
    limit: float | None = None,
    signed: bool = False,
    each: str = "",
) -> timeseries.Panel:
    """Lines over time, up to `top`; `limit` is drawn as a line of its own.

    `signed`: values may be below 0. `each`: a variable, for each choice of which there is a panel.
    """
    panel = (
        timeseries.Panel()
        .title(title)
        .description(text)
        .unit(unit)
        .span(width)
        .height(HEIGHT)
        .datasource(SOURCE)
        .targets(_lines(queries))
        .fill_opacity(40 if stacked else 0 if signed else 8)
        .line_width(2)
        .show_points(VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(LegendDisplayMode.TABLE)
            .placement(LegendPlacement.BOTTOM)
            .calcs(["mean", "lastNotNull"])
        )
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    if not signed:
        panel = panel.min(0)
    if each:
        panel = panel.repeat(each).repeat_direction("v")
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A"))
    if top is not None:
        panel = panel.max(top)
    if limit is not None:
        panel = panel.thresholds(_limits(limit)).thresholds_style(
            common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
        )
    return panel


def now(title: str, text: str, unit: str, expr: str, *, width: int = 4, limit: float | None = None) -> stat.Panel:
    """One number; red from `limit` on."""
    panel = (
        stat.Panel()
        .title(title)
        .description(text)
        .unit(unit)
        .span(width)
        .height(LOW)
        .datasource(SOURCE)
        .targets(_lines([(expr, title)]))
        .graph_mode(BigValueGraphMode.AREA)
        .color_mode(BigValueColorMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )
    if limit is None:
        return panel.color_scheme(dashboard.FieldColor().mode(FieldColorModeId.FIXED).fixed_color("text"))
    return panel.thresholds(_limits(limit))


def states(
    title: str, text: str, query: Query, values: Mapping[str, tuple[str, str]], *, width: int = 12
) -> statetimeline.Panel:
    """Bands over time: `values` maps a value to what is said for it, and its colour."""
    results: dict[str, ValueMappingResult] = {
        value: ValueMappingResult(text=said, color=colour, index=place)
        for place, (value, (said, colour)) in enumerate(values.items())
    }
    mapping: list[ValueMapping] = [ValueMap(options=results)]
    return (
        statetimeline.Panel()
        .title(title)
        .description(text)
        .span(width)
        .height(FLAT)
        .datasource(SOURCE)
        .targets(_lines([query]))
        .mappings(mapping)
        .color_scheme(dashboard.FieldColor().mode(FieldColorModeId.THRESHOLDS))
        .show_value(VisibilityMode.AUTO)
        .row_height(0.8)
        .fill_opacity(80)
    )


def bars(title: str, text: str, unit: str, query: Query, *, top: float, width: int = 8) -> bargauge.Panel:
    """Bars as of now, up to `top`."""
    return (
        bargauge.Panel()
        .title(title)
        .description(text)
        .unit(unit)
        .min(0)
        .max(top)
        .span(width)
        .height(HEIGHT)
        .datasource(SOURCE)
        .targets(_newest(query))
        .display_mode(BarGaugeDisplayMode.BASIC)
        .orientation(VizOrientation.HORIZONTAL)
        .color_scheme(dashboard.FieldColor().mode(FieldColorModeId.FIXED).fixed_color("blue"))
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def rows(
    title: str,
    text: str,
    columns: Mapping[str, str],
    *queries: Query,
    units: Mapping[str, str] | None = None,
    links: Mapping[str, str] | None = None,
    width: int = 12,
    height: int = FLAT,
) -> table.Panel:
    """A table as of now: `columns` maps labels to headings, and each query's value has its legend's heading.

    A query without legend is there for its labels. `units` and `links` are by heading.
    """
    panel = (
        table.Panel()
        .title(title)
        .description(text)
        .span(width)
        .height(height)
        .datasource(SOURCE)
        .no_value("none")
        .targets(_table(queries))
        .transformations(_columns(columns, [heading for _, heading in queries]))
    )
    for heading, unit in (units or {}).items():
        panel = panel.override_by_name(heading, [DynamicConfigValue("unit", unit)])
    for heading, url in (links or {}).items():
        panel = panel.override_by_name(heading, [DynamicConfigValue("links", [{"title": "Open", "url": url}])])
    return panel


def _columns(labels: Mapping[str, str], headings: Sequence[str]) -> list[DataTransformerConfig]:
    """The labels in their order, then the values; everything else hidden."""
    values = (
        [f"Value #{letter}" for letter in string.ascii_uppercase[: len(headings)]] if len(headings) > 1 else ["Value"]
    )
    shown = {**labels, **{value: heading for value, heading in zip(values, headings, strict=True) if heading}}
    organize: dict[str, Any] = {
        "excludeByName": {
            name: True for name in ("Time", "Value", "namespace", "specdecode_name") if name not in shown
        },
        "indexByName": {name: place for place, name in enumerate(shown)},
        "renameByName": shown,
    }
    return [
        DataTransformerConfig(id_val="merge", options={}),
        DataTransformerConfig(id_val="organize", options=organize),
    ]


def _lines(queries: Sequence[Query]) -> list[Builder[Any]]:
    return [target.range().legend_format(legend) for target, legend in _targets(queries)]


def _newest(query: Query) -> list[Builder[Any]]:
    return [target.instant().legend_format(legend) for target, legend in _targets([query])]


def _table(queries: Sequence[Query]) -> list[Builder[Any]]:
    return [target.instant().format(PromQueryFormat.TABLE) for target, _ in _targets(queries)]


def _targets(queries: Sequence[Query]) -> list[tuple[prometheus.Dataquery, str]]:
    return [
        (prometheus.Dataquery().expr(expr).ref_id(letter).datasource(SOURCE), legend)
        for letter, (expr, legend) in zip(string.ascii_uppercase, queries, strict=False)
    ]


def _limits(limit: float) -> dashboard.ThresholdsConfig:
    steps = [Threshold(value=None, color="green"), Threshold(value=limit, color="red")]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


# --- Dashboards -------------------------------------------------------------------------------------------------------


def board(
    uid: str,
    title: str,
    text: str,
    variables: Sequence[Builder[Any]],
    panels: Sequence[Builder[Panel]],
    annotations: Sequence[Builder[Any]] = (),
) -> Dashboard:
    """A dashboard, with a menu of all of ours that keeps what was chosen."""
    made = (
        dashboard.Dashboard(title)
        .uid(f"{TAG}-{uid}")
        .description(text)
        .tags([TAG])
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .readonly()
        .variables([dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"), *variables])
        .link(
            dashboard.DashboardLink("specdecode")
            .type(DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
        )
    )
    for annotation in annotations:
        made = made.annotation(annotation)
    for panel in panels:
        made = made.with_panel(panel)
    built = made.build()
    for link in built.links or ():
        link.placement = None  # type: ignore[assignment] # beside the variables, where every version of Grafana has it
    return built


def variable(name: str, label: str, series: str, of: str, *, several: bool = True) -> dashboard.QueryVariable:
    """Choices: the values of label `of` that `series` has."""
    made = (
        dashboard.QueryVariable(name)
        .label(label)
        .query({"query": f"label_values({series}, {of})", "refId": name})
        .datasource(SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .multi(several)
        .include_all(several)
    )
    if not several:
        return made
    everything = VariableOption(selected=True, text=["All"], value=["$__all"])
    return made.all_value(".*").current(everything)


NAMESPACE: Final = variable("namespace", "Namespace", 'up{specdecode_name!=""}', "namespace")
OBJECTS: Final = variable("object", "Object", 'up{namespace=~"$namespace",specdecode_name!=""}', "specdecode_name")
REVISIONS: Final = variable("revision", "Revision", f"up{{{OF_OBJECT}}}", "specdecode_revision")
