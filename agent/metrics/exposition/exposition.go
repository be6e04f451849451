// Package exposition reads what a service tells of itself in the text format of Prometheus (0.0.4), and takes the
// families of a table alone. It is a filter before a parser: lines of other families are passed by as they come, so
// that neither their number nor their form costs memory; lines of the table's families are parsed by expfmt.
//
// A service is outside: an answer has bounds in bytes, lines, series and labels, and what breaks them costs the family
// or, where the text has no end, the whole answer. Series whose labels the table does not have are summed up over those
// labels, which bounds how many there are.
package exposition

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/proto"

	"spore/agent/metrics/family"
)

// Bounds of one answer. MaxAnswer is in bytes of the whole answer, maxKept in bytes of what is parsed of it, maxLine
// in bytes of a line. maxSeries is how many series of a family there are after labels were summed up. A parsed line
// takes up to thirty times its text; so a family is parsed in pieces of up to some maxPiece bytes of that, and one
// that cannot be cut within maxUncut is malformed.
const (
	MaxAnswer = 32 << 20
	maxKept   = 8 << 20
	maxLine   = 64 << 10
	maxSeries = 1000
	maxPiece  = 2 << 20
	maxUncut  = 16 << 20
)

// perLine and perLabel are about what a parsed line takes in memory besides its text, in bytes.
const (
	perLine  = 210
	perLabel = 134
)

// ErrTooLong is an answer that does not end within MaxAnswer.
var ErrTooLong = fmt.Errorf("the answer is longer than %d MiB", MaxAnswer>>20)

// Read reads an answer and returns the families of the table in it, sorted by name. The error joins what could not be
// taken; what is returned beside it is good. With an error of reading nothing is returned.
func Read(r io.Reader, table []family.Family) ([]*dto.MetricFamily, error) {
	kept, err := sift(io.LimitReader(r, MaxAnswer+1), table)
	if err != nil {
		return nil, err
	}
	var out []*dto.MetricFamily
	var errs []error
	for _, f := range table {
		k := kept[f.Name]
		if k.err == nil && k.text.Len() == 0 {
			continue
		}
		parsed, err := parse(f, k)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.Name, err))
			continue
		}
		if len(parsed.Metric) > 0 {
			out = append(out, parsed)
		}
	}
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out, errors.Join(errs...)
}

// lines are the lines of one family.
type lines struct {
	text bytes.Buffer
	// cuts are where a piece of the text ends, and cost is what the piece takes that has not ended.
	cuts []int
	cost int
	// grouped is a type whose series have several lines, the last of which is that of the count, as the libraries of
	// Prometheus write them.
	grouped bool
	// is is the type that the service says.
	is  string
	err error
}

// sift reads the whole answer and keeps the lines of the table's families.
func sift(r io.Reader, table []family.Family) (map[string]*lines, error) {
	kept, samples := map[string]*lines{}, map[string]*lines{}
	for _, f := range table {
		l := &lines{grouped: f.Type == family.Histogram || f.Type == family.Summary}
		kept[f.Name] = l
		for _, suffix := range suffixes(f.Type) {
			samples[f.Name+suffix] = l
		}
	}
	left, total := maxKept, 0
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		total += len(line)
		long := errors.Is(err, bufio.ErrBufferFull)
		if l := owner(line, kept, samples); l != nil && l.err == nil {
			switch {
			case long:
				l.err = fmt.Errorf("a line is longer than %d KiB", maxLine>>10)
			case len(line) > left:
				l.err = fmt.Errorf("the answer has more than %d MiB of what is kept", maxKept>>20)
			case line[0] != '#':
				left -= len(line)
				l.add(line)
			}
		}
		for long { // The rest of the line.
			line, err = in.ReadSlice('\n')
			total += len(line)
			long = errors.Is(err, bufio.ErrBufferFull)
		}
		if total > MaxAnswer {
			return nil, ErrTooLong
		}
		if errors.Is(err, io.EOF) {
			return kept, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
	}
}

// add keeps a line of a sample.
func (l *lines) add(line []byte) {
	l.text.Write(bytes.TrimSuffix(line, []byte("\n")))
	l.text.WriteByte('\n')
	l.cost += len(line) + perLine + perLabel*bytes.Count(line, []byte("="))
	name := line[:max(0, bytes.IndexAny(line, "{ \t\n"))]
	switch {
	case l.cost > maxUncut:
		l.err = errors.New("the text is malformed: the lines of a series are not together")
	case l.cost >= maxPiece && (!l.grouped || bytes.HasSuffix(name, []byte("_count"))):
		l.cuts, l.cost = append(l.cuts, l.text.Len()), 0
	}
}

// pieces are the texts to be parsed one after another.
func (l *lines) pieces(do func(text []byte) error) error {
	text, from := l.text.Bytes(), 0
	for _, to := range append(l.cuts, len(text)) {
		if from == to {
			continue
		}
		if err := do(text[from:to]); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// suffixes are what the samples of a family end with, of which a reader of text knows no other way.
func suffixes(t family.Type) []string {
	switch t {
	case family.Histogram:
		return []string{"_bucket", "_sum", "_count"}
	case family.Summary:
		return []string{"", "_sum", "_count"}
	}
	return []string{""}
}

// owner is the family that a line is of, nil for all others. Of comments it looks at the type.
func owner(line []byte, kept, samples map[string]*lines) *lines {
	if rest, ok := bytes.CutPrefix(line, []byte("# TYPE ")); ok {
		words := bytes.Fields(rest)
		if len(words) != 2 {
			return nil
		}
		l := kept[string(words[0])]
		if l != nil {
			l.is = strings.Clone(string(words[1]))
		}
		return l
	}
	end := bytes.IndexAny(line, "{ \t\n")
	if end <= 0 || line[0] == '#' {
		return nil
	}
	return samples[string(line[:end])]
}

// typeNames are the types in the words of the text format.
var typeNames = map[family.Type]string{
	family.Counter: "counter", family.Gauge: "gauge", family.Histogram: "histogram", family.Summary: "summary",
	family.Unknown: "untyped",
}

// parse reads the lines of one family, and holds it to its row. A counter may have a row of the type unknown:
// OpenMetrics has no counters whose names do not end with _total, and writing one in that format gives it another
// name.
func parse(f family.Family, l *lines) (*dto.MetricFamily, error) {
	if l.err != nil {
		return nil, l.err
	}
	if want := typeNames[f.Type]; l.is != want && (f.Type != family.Unknown || l.is != "counter") {
		return nil, fmt.Errorf("the service says that it is a %.20q, and not a %s", l.is, want)
	}
	out, seen := f.Empty(), map[string]*dto.Metric{}
	err := l.pieces(func(text []byte) error {
		metrics, err := parsePiece(f.Name, l.is, text)
		if err != nil {
			return err
		}
		for _, m := range metrics {
			if err := take(f, m, out, seen); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	family.SortSeries(out)
	return out, nil
}

// parsePiece reads lines of one family, of the type that the service says.
func parsePiece(name, is string, text []byte) ([]*dto.Metric, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	head := fmt.Sprintf("# TYPE %s %s\n", name, is)
	all, err := parser.TextToMetricFamilies(io.MultiReader(strings.NewReader(head), bytes.NewReader(text)))
	if err != nil {
		return nil, fmt.Errorf("the text is malformed: %w", short{err})
	}
	of := all[name]
	if of == nil || len(all) != 1 {
		return nil, errors.New("the text is malformed: it has samples of another family")
	}
	return of.Metric, nil
}

// take adds a series to those of its family, by the labels of the family's row.
func take(f family.Family, m *dto.Metric, out *dto.MetricFamily, seen map[string]*dto.Metric) error {
	if m.Counter != nil && f.Type == family.Unknown {
		m.Counter, m.Untyped = nil, &dto.Untyped{Value: m.Counter.Value}
	}
	if err := check(f.Type, m); err != nil {
		return err
	}
	m, err := narrow(f, m)
	if err != nil {
		return err
	}
	key := family.Key(m)
	if have := seen[key]; have != nil {
		return add(f.Type, have, m)
	}
	if len(seen) == maxSeries {
		return fmt.Errorf("it has more than %d series", maxSeries)
	}
	seen[key] = m
	out.Metric = append(out.Metric, m)
	return nil
}

// short bounds what an error quotes of the outside.
type short struct{ error }

func (s short) Error() string { return fmt.Sprintf("%.200q", s.error.Error()) }
func (s short) Unwrap() error { return s.error }

// narrow leaves a series the labels of the row, and no time.
func narrow(f family.Family, m *dto.Metric) (*dto.Metric, error) {
	m.TimestampMs = nil
	var labels []*dto.LabelPair
	for _, l := range m.Label {
		if !slices.Contains(f.Labels, l.GetName()) {
			continue
		}
		if !family.Whole(l.GetValue()) {
			return nil, fmt.Errorf("the value of the label %s is too long", l.GetName())
		}
		labels = append(labels, l)
	}
	m.Label = labels
	family.SortLabels(m)
	for i := 1; i < len(labels); i++ {
		if m.Label[i].GetName() == m.Label[i-1].GetName() {
			return nil, fmt.Errorf("a series has the label %s twice", m.Label[i].GetName())
		}
	}
	return m, nil
}

// check holds the values of one series to its type.
func check(t family.Type, m *dto.Metric) error {
	switch t {
	case family.Counter:
		if v := m.GetCounter().GetValue(); v < 0 || math.IsNaN(v) {
			return fmt.Errorf("a counter has the value %v", v)
		}
	case family.Histogram:
		return checkHistogram(m.GetHistogram())
	}
	return nil
}

// checkHistogram wants buckets that grow, with the count of all in the last one.
func checkHistogram(h *dto.Histogram) error {
	if h == nil || len(h.Bucket) == 0 {
		return errors.New("a histogram has no buckets")
	}
	slices.SortFunc(h.Bucket, func(a, b *dto.Bucket) int { return cmp.Compare(a.GetUpperBound(), b.GetUpperBound()) })
	var before uint64
	for i, b := range h.Bucket {
		if math.IsNaN(b.GetUpperBound()) || i > 0 && b.GetUpperBound() == h.Bucket[i-1].GetUpperBound() {
			return errors.New("a histogram has a bucket twice, or one without a bound")
		}
		if b.GetCumulativeCount() < before {
			return errors.New("a bucket of a histogram has less than the one before")
		}
		before = b.GetCumulativeCount()
	}
	last := h.Bucket[len(h.Bucket)-1]
	if !math.IsInf(last.GetUpperBound(), 1) || last.GetCumulativeCount() != h.GetSampleCount() {
		return errors.New("a histogram has another count than its last bucket")
	}
	return nil
}

// add sums a series into another one.
func add(t family.Type, into, m *dto.Metric) error {
	switch t {
	case family.Counter:
		into.Counter.Value = proto.Float64(into.Counter.GetValue() + m.Counter.GetValue())
	case family.Gauge:
		into.Gauge.Value = proto.Float64(into.Gauge.GetValue() + m.Gauge.GetValue())
	case family.Unknown:
		into.Untyped.Value = proto.Float64(into.Untyped.GetValue() + m.Untyped.GetValue())
	case family.Histogram:
		return addHistogram(into.Histogram, m.Histogram)
	default:
		return errors.New("summaries cannot be summed up; its row needs all of its labels")
	}
	return nil
}

func addHistogram(into, h *dto.Histogram) error {
	if len(into.Bucket) != len(h.Bucket) {
		return errors.New("its histograms have different buckets")
	}
	for i, b := range h.Bucket {
		a := into.Bucket[i]
		if a.GetUpperBound() != b.GetUpperBound() {
			return errors.New("its histograms have different buckets")
		}
		a.CumulativeCount = proto.Uint64(a.GetCumulativeCount() + b.GetCumulativeCount())
	}
	into.SampleCount = proto.Uint64(into.GetSampleCount() + h.GetSampleCount())
	into.SampleSum = proto.Float64(into.GetSampleSum() + h.GetSampleSum())
	return nil
}
