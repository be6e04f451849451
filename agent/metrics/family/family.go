// Package family is the table of what a node measures: families in the sense of OpenMetrics, each with its name, type,
// labels, unit, help and where it comes from. What is measured is written through a Sink, which takes nothing that the
// table does not have, so that the reference (docs/reference/metrics.md) is made of the same rows as the answers.
package family

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// Type is the type of a family.
type Type = dto.MetricType

// Types.
const (
	Counter   = dto.MetricType_COUNTER
	Gauge     = dto.MetricType_GAUGE
	Histogram = dto.MetricType_HISTOGRAM
	Summary   = dto.MetricType_SUMMARY
	Unknown   = dto.MetricType_UNTYPED
)

// Family is a row of the table.
type Family struct {
	Name string
	Type Type
	// Labels are all that its series have, in this order.
	Labels []string
	// Help says what it is.
	Help string
	// From says where it is read.
	From string
}

// units are the base units of OpenMetrics and those of node_exporter, by the end of a name without _total.
var units = []string{"seconds", "bytes", "celsius", "ratio", "hertz", "volts", "amps", "watts", "rpm", "timestamp"}

// Unit is the unit of the family's values by its name; empty for numbers of things.
func (f Family) Unit() string {
	name := strings.TrimSuffix(f.Name, "_total")
	for _, u := range units {
		if strings.HasSuffix(name, "_"+u) {
			return u
		}
	}
	return ""
}

// maxLabel bounds the value of a label in bytes. Paths of mounts and names of units are shorter.
const maxLabel = 256

// maxSeries bounds the series of one family.
const maxSeries = 5000

// Label is a text as the value of a label: valid UTF-8 of at most 256 bytes.
func Label(text string) string {
	if len(text) > maxLabel {
		text = text[:maxLabel]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// Sink takes what is measured. Its zero value cannot be used; see NewSink.
type Sink struct {
	rows map[string]Family
	out  map[string]*dto.MetricFamily
	seen map[string]bool
	errs []error
}

// NewSink is an empty sink for families.
func NewSink(rows []Family) *Sink {
	s := &Sink{rows: map[string]Family{}, out: map[string]*dto.MetricFamily{}, seen: map[string]bool{}}
	for _, f := range rows {
		s.rows[f.Name] = f
	}
	return s
}

// Add takes one value of a counter, a gauge or an unknown. Labels have the order of the family's. What the table does
// not have, or what was added before, is left out, and Families says so.
func (s *Sink) Add(name string, value float64, labels ...string) {
	f, ok := s.rows[name]
	if !ok || len(labels) != len(f.Labels) {
		err := fmt.Errorf("internal error: the table has no family %s with %d labels", name, len(labels))
		s.errs = append(s.errs, err)
		return
	}
	m := &dto.Metric{}
	for i, l := range f.Labels {
		m.Label = append(m.Label, &dto.LabelPair{Name: proto.String(l), Value: proto.String(Label(labels[i]))})
	}
	SortLabels(m)
	key := name + Key(m)
	if s.seen[key] {
		s.errs = append(s.errs, fmt.Errorf("%s was measured twice with the labels %q", name, labels))
		return
	}
	switch f.Type {
	case Counter:
		m.Counter = &dto.Counter{Value: proto.Float64(value)}
	case Gauge:
		m.Gauge = &dto.Gauge{Value: proto.Float64(value)}
	case Unknown:
		m.Untyped = &dto.Untyped{Value: proto.Float64(value)}
	default:
		s.errs = append(s.errs, fmt.Errorf("internal error: %s is neither a counter nor a gauge", name))
		return
	}
	of := s.out[name]
	if of == nil {
		of = f.Empty()
		s.out[name] = of
	}
	if len(of.Metric) >= maxSeries {
		return
	}
	s.seen[key] = true
	of.Metric = append(of.Metric, m)
}

// Flag is Add of 1 or 0.
func (s *Sink) Flag(name string, is bool, labels ...string) {
	value := 0.0
	if is {
		value = 1
	}
	s.Add(name, value, labels...)
}

// Families are all that were added, sorted by name, and what could not be taken.
func (s *Sink) Families() ([]*dto.MetricFamily, []error) {
	var out []*dto.MetricFamily
	for _, f := range s.out {
		SortSeries(f)
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out, s.errs
}

// Empty is the family without series.
func (f Family) Empty() *dto.MetricFamily {
	return &dto.MetricFamily{Name: proto.String(f.Name), Help: proto.String(f.Help), Type: f.Type.Enum()}
}

// SortLabels sorts the labels of a series by their names.
func SortLabels(m *dto.Metric) {
	slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
}

// SortSeries sorts the series of a family by their labels.
func SortSeries(f *dto.MetricFamily) {
	slices.SortFunc(f.Metric, func(a, b *dto.Metric) int { return cmp.Compare(Key(a), Key(b)) })
}

// Key tells the series of a family apart. Labels have to be sorted.
func Key(m *dto.Metric) string {
	var b strings.Builder
	for _, l := range m.Label {
		b.WriteByte(0xFF) // not in UTF-8
		b.WriteString(l.GetName())
		b.WriteByte(0xFE)
		b.WriteString(l.GetValue())
	}
	return b.String()
}

// Whole tells whether a text can be the value of a label as it is.
func Whole(text string) bool { return len(text) <= maxLabel && utf8.ValidString(text) }
