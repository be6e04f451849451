package source

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"spore/agent/metrics/ask"
	"spore/agent/metrics/family"
)

var rows = []family.Family{{Name: "up", Type: family.Gauge, Labels: []string{"who"}, Help: "Up."}}

// saying is what a source says.
func saying(who string, value float64) []*dto.MetricFamily {
	s := family.NewSink(rows)
	s.Add("up", value, who)
	out, _ := s.Families()
	return out
}

// values are the values of a family by the first label.
func values(all []*dto.MetricFamily, name string) map[string]float64 {
	out := map[string]float64{}
	for _, f := range all {
		for _, m := range f.Metric {
			if f.GetName() == name {
				out[m.Label[0].GetValue()] = m.Gauge.GetValue()
			}
		}
	}
	return out
}

func TestASourceThatHangsCostsItsOwnRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		s := New([]Source{
			{Name: "quick", Ask: func(context.Context, ask.Question) ([]*dto.MetricFamily, error) { return saying("quick", 1), nil }},
			{Name: "hangs", Ask: func(ctx context.Context, _ ask.Question) ([]*dto.MetricFamily, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}},
		}, time.Now, func(s string) { said = append(said, s) })
		begun := time.Now()
		all, err := s.Gather(t.Context(), ask.Question{})
		require.NoError(t, err)
		require.Equal(t, Patience, time.Since(begun))
		require.Equal(t, map[string]float64{"quick": 1}, values(all, "up"))
		require.Equal(t, map[string]float64{"quick": 1, "hangs": 0}, values(all, "spore_source_up"))
		time.Sleep(Bound)
		require.Len(t, said, 1)
		require.Contains(t, said[0], "metrics of hangs")
	})
}

func TestWhatASlowSourceSaysIsToldByTheNextAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0.0
		s := New([]Source{{Name: "slow", Ask: func(context.Context, ask.Question) ([]*dto.MetricFamily, error) {
			n++
			is := n
			time.Sleep(time.Second)
			return saying("slow", is), nil
		}}}, time.Now, func(string) {})
		all, _ := s.Gather(t.Context(), ask.Question{})
		require.Empty(t, values(all, "up"))
		time.Sleep(15 * time.Second)
		all, _ = s.Gather(t.Context(), ask.Question{})
		require.Equal(t, map[string]float64{"slow": 1}, values(all, "up"))
		require.InDelta(t, 14.2, values(all, "spore_source_age_seconds")["slow"], 0.1)
		require.Equal(t, 1.0, values(all, "spore_source_answer_seconds")["slow"])
		time.Sleep(2 * time.Minute)
		all, _ = s.Gather(t.Context(), ask.Question{})
		require.Empty(t, values(all, "up"), "it is too old")
		time.Sleep(time.Minute)
	})
}

func TestASourceIsAskedAsOftenAsItsRowSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		s := New([]Source{{Name: "wear", Every: 10 * time.Minute, Ask: func(context.Context, ask.Question) ([]*dto.MetricFamily, error) {
			asked++
			return saying("wear", float64(asked)), nil
		}}}, time.Now, func(string) {})
		for range 5 {
			all, _ := s.Gather(t.Context(), ask.Question{})
			require.Equal(t, map[string]float64{"wear": 1}, values(all, "up"))
			time.Sleep(time.Minute)
		}
		time.Sleep(10 * time.Minute)
		all, _ := s.Gather(t.Context(), ask.Question{})
		require.Equal(t, map[string]float64{"wear": 2}, values(all, "up"))
	})
}

func TestADiskThatFailsIsNotAskedAtEachScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, some := range [][]*dto.MetricFamily{nil, saying("another disk", 1)} {
			asked := 0
			s := New([]Source{{Name: "wear", Every: 10 * time.Minute, Ask: func(context.Context, ask.Question) ([]*dto.MetricFamily, error) {
				asked++
				return some, errors.New("ask disk sda: input/output error")
			}}}, time.Now, func(string) {})
			for range 8 { // over two minutes
				_, _ = s.Gather(t.Context(), ask.Question{})
				time.Sleep(15 * time.Second)
			}
			require.Equal(t, 2, asked, "at the begin, and after a minute")
		}
	})
}

func TestASourceThatHasNothingToTellIsUp(t *testing.T) {
	s := New([]Source{
		{Name: "wear", Ask: func(context.Context, ask.Question) ([]*dto.MetricFamily, error) { return nil, nil }},
		{Name: "fails", Ask: func(context.Context, ask.Question) ([]*dto.MetricFamily, error) { return nil, errors.New("x") }},
	}, time.Now, func(string) {})
	all, _ := s.Gather(t.Context(), ask.Question{})
	require.Equal(t, map[string]float64{"wear": 1, "fails": 0}, values(all, "spore_source_up"))
}

func TestASourceThatTheNodeDoesNotHaveIsNotAsked(t *testing.T) {
	s := New([]Source{{
		Name: "etcd", On: func(q ask.Question) bool { return len(q.Programs) > 0 },
		Ask: func(context.Context, ask.Question) ([]*dto.MetricFamily, error) { panic("asked") },
	}}, time.Now, func(string) {})
	all, err := s.Gather(t.Context(), ask.Question{})
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestTheSameFamilyOfTwoSourcesIsOne(t *testing.T) {
	s := New([]Source{
		{Name: "a", Ask: func(context.Context, ask.Question) ([]*dto.MetricFamily, error) { return saying("a", 1), nil }},
		{Name: "b", Ask: func(context.Context, ask.Question) ([]*dto.MetricFamily, error) {
			return saying("b", 2), errors.New("half of it is missing")
		}},
		{Name: "c", Ask: func(context.Context, ask.Question) ([]*dto.MetricFamily, error) { return saying("a", 3), nil }},
	}, time.Now, func(string) {})
	all, _ := s.Gather(t.Context(), ask.Question{})
	require.Equal(t, map[string]float64{"a": 1, "b": 2}, values(all, "up"))
	require.Equal(t, map[string]float64{"a": 1, "b": 0, "c": 1}, values(all, "spore_source_up"))
}
