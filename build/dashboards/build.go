//lint:file-ignore SA1019 the form that succeeds is not read from files by the releases in use

package main

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// docs is where the documentation is read.
const docs = "https://github.com/warmgate/warmgate/blob/main/"

// of the variable that names the Prometheus to ask.
var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

// build makes Grafana's form of a dashboard: the one that all its releases read from files, not only the latest.
func (b *board) build() (dashboard.Dashboard, error) {
	d := dashboard.NewDashboardBuilder(b.title).
		Uid("warmgate-"+b.name).
		Description(b.about).
		Tags([]string{"warmgate"}).
		Refresh("10s").
		Time("now-30m", "now").
		Timezone(common.TimeZoneBrowser).
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("Warmgate").
			Type(dashboard.DashboardLinkTypeDashboards).
			Tags([]string{"warmgate"}).
			AsDropdown(true).
			IncludeVars(true).
			KeepTime(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus"))
	for _, name := range b.vars {
		d.WithVariable(variable(name))
	}
	for _, r := range b.rows {
		d.WithRow(dashboard.NewRowBuilder(r.title))
		for i := range r.panels {
			d.WithPanel(r.panels[i].build())
		}
	}
	return d.Build()
}

// variable lets the reader choose among the values of a label. All of them includes series without it.
func variable(label string) *dashboard.QueryVariableBuilder {
	query := "label_values(warmgate_requests_total, " + label + ")"
	return dashboard.NewQueryVariableBuilder(label).
		Label(strings.ToUpper(label[:1]) + label[1:]).
		Datasource(source).
		Query(dashboard.StringOrMap{String: &query}).
		Definition(query).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).
		IncludeAll(true).
		AllValue(".*").
		Current(dashboard.VariableOption{
			Selected: cog.ToPtr(true),
			Text:     dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value:    dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
}

func (p *panel) build() cog.Builder[dashboard.Panel] {
	if p.kind == number || p.kind == tile {
		return p.stat()
	}
	fill, stack := 5.0, common.StackingModeNone
	if p.kind == stacked {
		fill, stack = 40, common.StackingModeNormal
	}
	b := timeseries.NewPanelBuilder().
		Title(p.title).
		Description(p.description()).
		Datasource(source).
		Unit(p.unit).
		Min(0).
		Span(p.span()).
		Height(8).
		Links(p.links()).
		FillOpacity(fill).
		LineWidth(1).
		ShowPoints(common.VisibilityModeNever).
		Stacking(common.NewStackingConfigBuilder().Mode(stack)).
		Tooltip(common.NewVizTooltipOptionsBuilder().
			Mode(common.TooltipDisplayModeMulti).
			Sort(common.SortOrderDescending)).
		Legend(common.NewVizLegendOptionsBuilder().
			ShowLegend(true).
			DisplayMode(common.LegendDisplayModeList).
			Placement(common.LegendPlacementBottom))
	if p.needs != "" {
		b.NoValue("No data unless " + p.needs)
	}
	for _, q := range p.all() {
		b.WithTarget(prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend).Range())
	}
	return b
}

// since is what a tile shows in place of minutes: of what is wrong, and of what is well.
var since = dashboard.ValueMapping{ValueMap: &dashboard.ValueMap{
	Type: dashboard.MappingTypeValueToText,
	Options: map[string]dashboard.ValueMappingResult{
		"0": {Text: cog.ToPtr("last 2 min")}, "-1": {Text: cog.ToPtr("now")},
	},
}}

// stat is a number, or a tile: the names of its series and when each was last seen.
func (p *panel) stat() cog.Builder[dashboard.Panel] {
	b := stat.NewPanelBuilder().
		Title(p.title).
		Description(p.description()).
		Datasource(source).
		Unit(p.unit).
		Span(p.span()).
		Height(4).
		Links(p.links()).
		GraphMode(common.BigValueGraphModeNone).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
	if p.kind == tile {
		const fiveLines = 5
		b.Height(fiveLines).
			NoValue("not loaded, or not scraped").
			TextMode(common.BigValueTextModeValueAndName).
			ColorMode(common.BigValueColorModeBackground).
			Orientation(common.VizOrientationHorizontal).
			Text(common.NewVizTextDisplayOptionsBuilder().TitleSize(16).ValueSize(14)).
			Mappings([]dashboard.ValueMapping{since}).
			Thresholds(dashboard.NewThresholdsConfigBuilder().
				Mode(dashboard.ThresholdsModeAbsolute).
				Steps([]dashboard.Threshold{
					{Color: "green"}, {Value: cog.ToPtr(0.), Color: "red"}, {Value: cog.ToPtr(0.5), Color: "orange"},
				}))
	}
	for _, q := range p.all() {
		b.WithTarget(prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend).Instant())
	}
	return b
}

// description is what Grafana shows behind the i of a panel, in Markdown.
func (p *panel) description() string {
	text := p.ask + "\n\n**Normal:** " + p.normal + "\n\n**If not:** " + p.act
	if p.needs != "" {
		text += "\n\n**Without data** unless " + p.needs + "."
	}
	return text + "\n\n[More](" + docs + p.page + ")"
}

// links lead from the corner of a panel to what to do.
func (p *panel) links() []cog.Builder[dashboard.DashboardLink] {
	return []cog.Builder[dashboard.DashboardLink]{
		dashboard.NewDashboardLinkBuilder("What to do").
			Type(dashboard.DashboardLinkTypeLink).Url(docs + p.page).TargetBlank(true),
	}
}

func (p *panel) span() uint32 {
	if p.width == 0 {
		return 8
	}
	return p.width
}
