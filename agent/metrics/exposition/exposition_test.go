package exposition

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"spore/agent/metrics/family"
)

var table = []family.Family{
	{Name: "calls_total", Type: family.Counter, Labels: []string{"code"}, Help: "Calls."},
	{Name: "depth", Type: family.Gauge, Labels: []string{"name"}, Help: "Depth."},
	{Name: "took_seconds", Type: family.Histogram, Labels: []string{"verb"}, Help: "Time."},
	{Name: "size", Type: family.Summary, Help: "Size."},
	{Name: "evictions", Type: family.Unknown, Help: "Evictions."},
}

// shown is what a reader of the text format gets of what was taken.
func shown(t testing.TB, text string) (string, error) {
	families, err := Read(strings.NewReader(text), table)
	var b bytes.Buffer
	for _, f := range families {
		_, e := expfmt.MetricFamilyToText(&b, f)
		require.NoError(t, e)
	}
	return b.String(), err
}

func TestFamiliesOfTheTableAreTaken(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"a gauge":            {"# TYPE depth gauge\ndepth{name=\"a\"} 3\n", "# HELP depth Depth.\n# TYPE depth gauge\ndepth{name=\"a\"} 3\n"},
		"help is the row's":  {"# HELP depth \x1b[2J\n# TYPE depth gauge\ndepth 3\n", "# HELP depth Depth.\n# TYPE depth gauge\ndepth 3\n"},
		"no newline at last": {"# TYPE depth gauge\ndepth 3", "# HELP depth Depth.\n# TYPE depth gauge\ndepth 3\n"},
		"a time is left out": {"# TYPE depth gauge\ndepth 3 1700000000000\n", "# HELP depth Depth.\n# TYPE depth gauge\ndepth 3\n"},
		"labels that the row does not have are summed up": {
			"# TYPE calls_total counter\ncalls_total{code=\"1\",user=\"a\"} 3\ncalls_total{user=\"b\",code=\"1\"} 4\n",
			"# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total{code=\"1\"} 7\n",
		},
		"a counter without _total keeps its name in all formats": {
			"# TYPE evictions counter\nevictions{signal=\"a\"} 3\nevictions{signal=\"b\"} 4\n",
			"# HELP evictions Evictions.\n# TYPE evictions untyped\nevictions 7\n",
		},
		"and so are buckets": {
			"# TYPE took_seconds histogram\n" +
				"took_seconds_bucket{verb=\"GET\",x=\"1\",le=\"1\"} 1\ntook_seconds_bucket{verb=\"GET\",x=\"1\",le=\"+Inf\"} 2\n" +
				"took_seconds_sum{verb=\"GET\",x=\"1\"} 5\ntook_seconds_count{verb=\"GET\",x=\"1\"} 2\n" +
				"took_seconds_bucket{verb=\"GET\",x=\"2\",le=\"1\"} 1\ntook_seconds_bucket{verb=\"GET\",x=\"2\",le=\"+Inf\"} 1\n" +
				"took_seconds_sum{verb=\"GET\",x=\"2\"} 1\ntook_seconds_count{verb=\"GET\",x=\"2\"} 1\n",
			"# HELP took_seconds Time.\n# TYPE took_seconds histogram\n" +
				"took_seconds_bucket{verb=\"GET\",le=\"1\"} 2\ntook_seconds_bucket{verb=\"GET\",le=\"+Inf\"} 3\n" +
				"took_seconds_sum{verb=\"GET\"} 6\ntook_seconds_count{verb=\"GET\"} 3\n",
		},
		"quotes and newlines in a label stay in it": {
			"# TYPE depth gauge\ndepth{name=\"a\\\"} 1\\nevil 2\"} 3\n",
			"# HELP depth Depth.\n# TYPE depth gauge\ndepth{name=\"a\\\"} 1\\nevil 2\"} 3\n",
		},
		"other families are passed by, whatever they are": {
			"# TYPE evil gauge\nevil{name=\"" + strings.Repeat("x", 1<<20) + "\"} 1\nevil{{{{\n\x00\xff\n{\n \n\n# TYPE depth gauge\ndepth 3\n",
			"# HELP depth Depth.\n# TYPE depth gauge\ndepth 3\n",
		},
		"a summary": {
			"# TYPE size summary\nsize{quantile=\"0.5\"} 1\nsize_sum 2\nsize_count 3\n",
			"# HELP size Size.\n# TYPE size summary\nsize{quantile=\"0.5\"} 1\nsize_sum 2\nsize_count 3\n",
		},
		"nothing at all": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := shown(t, tt.text)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestWhatBreaksTheBoundsCostsItsFamily(t *testing.T) {
	many := "# TYPE depth gauge\n"
	for i := range maxSeries + 1 {
		many += fmt.Sprintf("depth{name=\"%d\"} 1\n", i)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"a label of 1 MiB":               {"# TYPE depth gauge\ndepth{name=\"" + strings.Repeat("x", 1<<20) + "\"} 1\n", "a line is longer than 64 KiB"},
		"a label of 300 bytes":           {"# TYPE depth gauge\ndepth{name=\"" + strings.Repeat("x", 300) + "\"} 1\n", "the value of the label name is too long"},
		"a label that is not UTF-8":      {"# TYPE depth gauge\ndepth{name=\"\xff\"} 1\n", "malformed"},
		"a newline in a label":           {"# TYPE depth gauge\ndepth{name=\"a\nb\"} 1\n", "malformed"},
		"a quote in a label":             {"# TYPE depth gauge\ndepth{name=\"a\"b\"} 1\n", "malformed"},
		"no type":                        {"depth 1\n", `says that it is a "", and not a gauge`},
		"another type":                   {"# TYPE depth counter\ndepth 1\n", `says that it is a "counter", and not a gauge`},
		"a value that is no number":      {"# TYPE depth gauge\ndepth x\n", "malformed"},
		"a series twice over its labels": {"# TYPE depth gauge\ndepth{name=\"a\",name=\"b\"} 1\n", "malformed"},
		"too many series":                {many, "more than 1000 series"},
		"a counter below 0":              {"# TYPE calls_total counter\ncalls_total -1\n", "a counter has the value -1"},
		"a counter that is no number":    {"# TYPE calls_total counter\ncalls_total NaN\n", "a counter has the value NaN"},
		"a histogram that shrinks": {"# TYPE took_seconds histogram\ntook_seconds_bucket{le=\"1\"} 2\n" +
			"took_seconds_bucket{le=\"+Inf\"} 1\ntook_seconds_sum 1\ntook_seconds_count 1\n", "less than the one before"},
		"a histogram without buckets": {"# TYPE took_seconds histogram\ntook_seconds_sum 1\ntook_seconds_count 1\n", "no buckets"},
		"a histogram that counts wrongly": {"# TYPE took_seconds histogram\ntook_seconds_bucket{le=\"+Inf\"} 1\n" +
			"took_seconds_sum 1\ntook_seconds_count 2\n", "another count"},
		"histograms with other buckets": {"# TYPE took_seconds histogram\n" +
			"took_seconds_bucket{x=\"1\",le=\"+Inf\"} 1\ntook_seconds_sum{x=\"1\"} 1\ntook_seconds_count{x=\"1\"} 1\n" +
			"took_seconds_bucket{x=\"2\",le=\"1\"} 1\ntook_seconds_bucket{x=\"2\",le=\"+Inf\"} 1\n" +
			"took_seconds_sum{x=\"2\"} 1\ntook_seconds_count{x=\"2\"} 1\n", "different buckets"},
		"summaries that would be summed up": {"# TYPE size summary\nsize_sum{x=\"1\"} 1\nsize_count{x=\"1\"} 1\n" +
			"size_sum{x=\"2\"} 1\nsize_count{x=\"2\"} 1\n", "cannot be summed up"},
		"more than is kept": {"# TYPE depth gauge\n" + strings.Repeat("depth{name=\"a\"} 1 "+strings.Repeat(" ", 8000)+"\n", 1100),
			"more than 8 MiB of what is kept"},
	} {
		t.Run(name, func(t *testing.T) {
			good := "# TYPE calls_total counter\ncalls_total{code=\"7\"} 1\n"
			if strings.Contains(tt.text, "calls_total") {
				good = "# TYPE depth gauge\ndepth 1\n"
			}
			got, err := shown(t, good+tt.text)
			require.ErrorContains(t, err, tt.want)
			require.Less(t, len(err.Error()), 1000, "an error does not quote the whole answer")
			require.Equal(t, 1, strings.Count(got, "# TYPE"), "the other family is there: %s", got)
		})
	}
}

// endless is an answer that has no end.
type endless struct{ text string }

func (e endless) Read(b []byte) (int, error) {
	return copy(b, e.text), nil
}

// A line of a few bytes takes hundreds of them when it is parsed, and the collector may have 128 MiB in all (its unit).
func TestAnAnswerOfManyLinesIsParsedInPieces(t *testing.T) {
	line := "calls_total{code=\"1\",b=\"\",c=\"\",d=\"\",e=\"\",f=\"\"} 1\n"
	many := 4 << 20 / len(line)
	families, err := Read(strings.NewReader("# TYPE calls_total counter\n"+strings.Repeat(line, many)), table)
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Equal(t, float64(many), families[0].Metric[0].Counter.GetValue())

	l := &lines{}
	for range many {
		l.add([]byte(line))
	}
	require.NoError(t, l.err)
	require.NoError(t, l.pieces(func(text []byte) error {
		require.Less(t, len(text), maxPiece/8)
		require.True(t, bytes.HasSuffix(text, []byte("\n")))
		return nil
	}))
}

func TestPiecesHaveWholeHistograms(t *testing.T) {
	var text strings.Builder
	text.WriteString("# TYPE took_seconds histogram\n")
	const many = 4000
	for i := range many {
		for _, le := range []string{"1", "2", "+Inf"} {
			fmt.Fprintf(&text, "took_seconds_bucket{verb=\"GET\",x=\"%d\",le=\"%s\"} 1\n", i, le)
		}
		fmt.Fprintf(&text, "took_seconds_sum{verb=\"GET\",x=\"%d\"} 1\ntook_seconds_count{verb=\"GET\",x=\"%d\"} 1\n", i, i)
	}
	kept, err := sift(strings.NewReader(text.String()), table)
	require.NoError(t, err)
	require.Greater(t, len(kept["took_seconds"].cuts), 2)
	families, err := Read(strings.NewReader(text.String()), table)
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.EqualValues(t, many, families[0].Metric[0].Histogram.GetSampleCount())

	text.Reset()
	text.WriteString("# TYPE took_seconds histogram\n")
	for i := range 40_000 {
		fmt.Fprintf(&text, "took_seconds_bucket{verb=\"GET\",x=\"%d\",le=\"1\"} 1\n", i)
	}
	_, err = Read(strings.NewReader(text.String()), table)
	require.EqualError(t, err, "took_seconds: the text is malformed: the lines of a series are not together")
}

func TestAnAnswerWithoutAnEndIsGivenUp(t *testing.T) {
	for name, text := range map[string]string{
		"lines of others": "evil{name=\"a\"} 1\n", "one line": "x", "lines of the table": "depth{name=\"a\"} 1\n",
	} {
		t.Run(name, func(t *testing.T) {
			families, err := Read(endless{text}, table)
			require.ErrorIs(t, err, ErrTooLong)
			require.Empty(t, families)
		})
	}
	_, err := Read(io.MultiReader(strings.NewReader("# TYPE depth gauge\ndepth 1\n"), broken{}), table)
	require.ErrorContains(t, err, "the cable")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, fmt.Errorf("the cable") }

func FuzzRead(f *testing.F) {
	f.Add("# TYPE depth gauge\ndepth{name=\"a\"} 3\n")
	f.Add("# TYPE took_seconds histogram\ntook_seconds_bucket{le=\"+Inf\"} 1\ntook_seconds_sum 1\ntook_seconds_count 1\n")
	f.Add("# TYPE size summary\nsize{quantile=\"0.5\"} 1\nsize_sum 2\nsize_count 3\n")
	f.Add("# TYPE calls_total counter\ncalls_total{code=\"\\\"\"} 1e300 5\n# TYPE calls_total gauge\n")
	f.Fuzz(func(t *testing.T, text string) {
		families, _ := Read(strings.NewReader(text), table)
		var b bytes.Buffer
		for _, family := range families {
			_, err := expfmt.MetricFamilyToText(&b, family)
			require.NoError(t, err)
		}
		again, err := Read(bytes.NewReader(b.Bytes()), table)
		require.NoError(t, err, "what was taken is taken again: %q", b.String())
		require.Len(t, again, len(families))
	})
}
