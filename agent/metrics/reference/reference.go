// Package reference writes docs/reference/metrics.md: the families that a node tells, from the tables by which it
// measures them.
package reference

import (
	"fmt"
	"slices"
	"strings"

	"spore/agent/metrics/family"
	"spore/agent/metrics/serve"
	"spore/agent/metrics/service"
)

//go:generate go run generate.go

// typeNames are the types in the words of OpenMetrics.
var typeNames = map[family.Type]string{
	family.Counter: "counter", family.Gauge: "gauge", family.Histogram: "histogram", family.Summary: "summary",
	family.Unknown: "unknown",
}

// Page is the page.
func Page() string {
	var b strings.Builder
	b.WriteString("# Metrics of a node\n\n")
	b.WriteString("Generated from the Go code by `go generate ./agent/metrics/reference`; do not edit.\n")
	b.WriteString("[Metrics](../metrics.md) says how to get them.\n\n")
	b.WriteString("## The machine and its node\n\n")
	table(&b, serve.Own())
	for _, program := range service.Programs() {
		fmt.Fprintf(&b, "\n## %s\n\n", program)
		table(&b, service.Table()[program])
	}
	return b.String()
}

func table(b *strings.Builder, rows []family.Family) {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(x, y family.Family) int { return strings.Compare(x.Name, y.Name) })
	b.WriteString("| name | type | labels | unit | what | from |\n|---|---|---|---|---|---|\n")
	for _, f := range rows {
		var labels []string
		for _, l := range f.Labels {
			labels = append(labels, "`"+l+"`")
		}
		cell := func(s string) string {
			if s == "" {
				return "–"
			}
			return strings.ReplaceAll(s, "|", `\|`)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s |\n",
			f.Name, typeNames[f.Type], cell(strings.Join(labels, ", ")), cell(f.Unit()), cell(f.Help), cell(f.From))
	}
}
