package give

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/logs/give/parcel"
)

// queue gives texts one after the other.
type queue struct {
	mu      sync.Mutex
	batches []string
	next    int
	done    []string
	fails   error
}

func (q *queue) Next(ctx context.Context) (string, error) {
	q.mu.Lock()
	if err := q.fails; err != nil {
		q.fails = nil
		q.mu.Unlock()
		return "", err
	}
	if q.next < len(q.batches) {
		q.next++
		defer q.mu.Unlock()
		return q.batches[q.next-1], nil
	}
	q.mu.Unlock()
	<-ctx.Done()
	return "", ctx.Err()
}

func (q *queue) Done(b string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done = append(q.done, b)
	return nil
}

// receiver answers in turn, and then takes everything.
type receiver struct {
	answers []func([]parcel.Entry) (parcel.Outcome, error)
	asked   []string
	at      []time.Time
}

func (r *receiver) Give(_ context.Context, entries []parcel.Entry) (parcel.Outcome, error) {
	var texts []string
	for _, e := range entries {
		texts = append(texts, e.Text)
	}
	r.asked, r.at = append(r.asked, strings.Join(texts, ",")), append(r.at, time.Now())
	if len(r.answers) == 0 {
		return parcel.Outcome{}, nil
	}
	answer := r.answers[0]
	r.answers = r.answers[1:]
	return answer(entries)
}

func away(e []parcel.Entry) (parcel.Outcome, error) {
	return parcel.Outcome{Left: e}, errors.New("nobody is there\x1b[2J")
}

var clock = Clock{Now: time.Now, Sleep: func(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}}

func line(text, source, priority string) string {
	return fmt.Sprintf(`{"_time":%q,"_msg":%q,"_SPORE_SOURCE":%q,"PRIORITY":%q}`+"\n",
		time.Now().UTC().Format(time.RFC3339Nano), text, source, priority)
}

// run has a giver run for a time, and returns what it says.
func run(t *testing.T, q *queue, r Receiver, f Filter, long time.Duration) (*Giver[string], string) {
	var log strings.Builder
	g := New("plant", q, func(b string) []byte { return []byte(b) }, f, r, clock, func(s string) { log.WriteString(s + "\n") })
	ctx, stop := context.WithTimeout(t.Context(), long)
	defer stop()
	require.ErrorIs(t, g.Run(ctx), context.DeadlineExceeded)
	return g, log.String()
}

var everything = Filter{Sources: []string{"journal", "pod", "audit"}, Least: 7}

func TestAReceiverGetsWhatItWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{batches: []string{line("a", "journal", "6") + line("b", "pod", "3"), line("c", "journal", "3") + "nonsense\n" + line("d", "", "3")}}
		r := &receiver{}
		g, log := run(t, q, r, Filter{Sources: []string{"journal"}, Least: 4}, 10*time.Second)
		require.Equal(t, []string{"c"}, r.asked)
		require.Equal(t, q.batches, q.done)
		require.Equal(t, Counts{Given: 1, Filtered: 3, Refused: 1}, g.Counts())
		require.Empty(t, log)
	})
}

func TestAReceiverThatIsAwayIsTriedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		q := &queue{batches: []string{line("a", "journal", "6")}}
		r := &receiver{}
		for range 100 {
			r.answers = append(r.answers, away)
		}
		g, log := run(t, q, r, everything, time.Hour)
		require.Empty(t, q.done)
		require.Zero(t, g.Counts().Given)
		var waits []int
		for i := range 8 {
			waits = append(waits, int(r.at[i+1].Sub(r.at[i]).Seconds()))
		}
		require.Equal(t, []int{1, 2, 4, 8, 16, 32, 60, 60}, waits)
		require.Equal(t, began.Add(gather), r.at[0])
		require.Contains(t, log, "give to plant: nobody is there [2J\n")
		require.InDelta(t, 60, strings.Count(log, "\n"), 5)
		_, _ = run(t, &queue{batches: q.batches}, r, everything, time.Hour+time.Minute)
	})
}

func TestOnlyWhatIsLeftIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{batches: []string{line("a", "journal", "6") + line("b", "pod", "3") + line("c", "pod", "3")}}
		r := &receiver{answers: []func([]parcel.Entry) (parcel.Outcome, error){
			func(e []parcel.Entry) (parcel.Outcome, error) {
				return parcel.Outcome{Left: e[1:2], Refused: 1, Why: "too old"}, &parcel.Later{After: 7 * time.Second, Err: errors.New("slow")}
			},
			func(e []parcel.Entry) (parcel.Outcome, error) {
				return parcel.Outcome{Left: e}, &parcel.Later{After: 24 * time.Hour, Err: errors.New("slow")}
			},
		}}
		g, log := run(t, q, r, everything, time.Hour)
		require.Equal(t, []string{"a,b,c", "b", "b"}, r.asked)
		require.Equal(t, 7*time.Second, r.at[1].Sub(r.at[0]))
		require.Equal(t, mostAsked, r.at[2].Sub(r.at[1]))
		require.Equal(t, Counts{Given: 2, Refused: 1, Failures: 2}, g.Counts())
		require.Equal(t, q.batches, q.done)
		require.Contains(t, log, "the receiver refuses 1 entries, which are left out: too old")
	})
}

// strict takes no request that has an entry of which it says bad, at most so many entries of a call in a request.
type strict struct {
	bad     func(text string) bool
	certain bool
	most    int
	asked   int
	has     []string
}

func (s *strict) Give(_ context.Context, entries []parcel.Entry) (parcel.Outcome, error) {
	left := entries
	for len(left) > 0 {
		n := min(s.most, len(left))
		s.asked++
		for _, e := range left[:n] {
			if s.bad(e.Text) {
				return parcel.Outcome{Left: left}, &parcel.Rejected{N: n, Certain: s.certain, Err: errors.New("400: no")}
			}
		}
		for _, e := range left[:n] {
			s.has = append(s.has, e.Text)
		}
		left = left[n:]
	}
	return parcel.Outcome{}, nil
}

func TestEntriesThatAReceiverCallsMalformedAreLeftOut(t *testing.T) {
	const all = 2000
	for name, tt := range map[string]struct {
		bad     func(i int) bool
		certain bool
		most    int
		refused int
		// asked is how many requests there may be, and waits how often it waits.
		asked, waits int
	}{
		"one of many":                   {func(i int) bool { return i == 1234 }, false, all, 1, 25, 0},
		"the first":                     {func(i int) bool { return i == 0 }, false, all, 1, 25, 0},
		"a few":                         {func(i int) bool { return i%500 == 7 }, false, all, 4, 100, 0},
		"the older half":                {func(i int) bool { return i < all/2 }, false, all, all / 2, 2*all + mostInARow, 0},
		"the older half and one":        {func(i int) bool { return i <= all/2 }, false, all, all/2 + 1, 2*all + mostInARow, 0},
		"the first hundred":             {func(i int) bool { return i < 100 }, false, all, 100, 2*mostInARow + 200, 0},
		"all but the first":             {func(i int) bool { return i > 0 }, false, all, all - 1, 2 * all, 0},
		"all but the last":              {func(i int) bool { return i < all-1 }, false, all, all - 1, 2*all + mostInARow, 0},
		"in the second of two requests": {func(i int) bool { return i == 1999 }, false, all / 2, 1, 30, 0},
		"all, for a reason of theirs":   {func(int) bool { return true }, true, all, all, mostInARow + 20, 0},
		"all, for whatever reason":      {func(int) bool { return true }, false, all, all, mostRejections * (mostInARow + 30), mostRejections - 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines strings.Builder
				var want []string
				bad := map[string]bool{}
				for i := range all {
					text := fmt.Sprint(i)
					lines.WriteString(line(text, "journal", "6"))
					if bad[text] = tt.bad(i); !bad[text] {
						want = append(want, text)
					}
				}
				q := &queue{batches: []string{lines.String()}}
				r := &strict{bad: func(text string) bool { return bad[text] }, certain: tt.certain, most: tt.most}
				g := New("plant", q, func(b string) []byte { return []byte(b) }, everything, r, clock, func(s string) {
					require.Contains(t, s, "400: no")
				})
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				require.ErrorIs(t, g.Run(ctx), context.DeadlineExceeded)
				if tt.refused > mostInARow { // The last entry of a part may have gone before the others.
					require.ElementsMatch(t, want, r.has)
				} else {
					require.Equal(t, want, r.has)
				}
				require.Equal(t, q.batches, q.done)
				require.Equal(t, uint64(tt.refused), g.Counts().Refused)
				require.Equal(t, uint64(all-tt.refused), g.Counts().Given)
				require.LessOrEqual(t, r.asked, tt.asked)
				require.Equal(t, uint64(tt.waits), g.Counts().Failures)
			})
		})
	}
}

func TestAReceiverThatIsSetUpWronglyGetsEntriesWhenItIsRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{batches: []string{line("a", "journal", "6") + line("b", "pod", "3")}}
		right := time.Now().Add(5 * time.Second)
		r := &strict{bad: func(string) bool { return time.Now().Before(right) }, most: 100}
		g, log := run(t, q, r, everything, time.Hour)
		require.Equal(t, []string{"a", "b"}, r.has)
		require.Equal(t, Counts{Given: 2, Failures: 3}, g.Counts())
		require.Equal(t, "give to plant: 400: no\n", log)
	})
}

func TestAReceiverThatGoesAwayWhileMalformedEntriesAreLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rejects := func(e []parcel.Entry) (parcel.Outcome, error) {
			return parcel.Outcome{Left: e}, &parcel.Rejected{N: len(e), Err: errors.New("400: no")}
		}
		q := &queue{batches: []string{line("a", "journal", "6") + line("b", "pod", "3") + line("c", "pod", "3") + line("d", "pod", "3")}}
		takes := func([]parcel.Entry) (parcel.Outcome, error) { return parcel.Outcome{}, nil }
		r := &receiver{answers: []func([]parcel.Entry) (parcel.Outcome, error){rejects, rejects, rejects, takes, away, rejects, rejects, takes}}
		g, _ := run(t, q, r, everything, time.Hour)
		require.Equal(t, []string{"a,b,c,d", "a,b", "a", "b", "c,d", "a,c,d", "a", "c,d"}, r.asked)
		require.Equal(t, Counts{Given: 3, Refused: 1, Failures: 1}, g.Counts())
	})
}

func TestAQueueThatCannotBeReadIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{batches: []string{line("a", "journal", "6")}, fails: errors.New("the disk is sick")}
		r := &receiver{}
		_, log := run(t, q, r, everything, time.Minute)
		require.Equal(t, "give to plant: read the queue: the disk is sick\n", log)
		require.Equal(t, []string{"a"}, r.asked)
	})
}

func TestBatchesThatFollowSoonGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queue{}
		for range 5 {
			q.batches = append(q.batches, line(strings.Repeat("x", gatherBytes/3), "journal", "6"))
		}
		r := &receiver{}
		run(t, q, r, everything, time.Minute)
		require.Len(t, r.asked, 2, "up to a size")
		require.Len(t, q.done, 5)
	})
}

func TestMetrics(t *testing.T) {
	require.Empty(t, Metrics(nil))
	require.Equal(t, `# HELP spore_logs_given_total Entries that a receiver has.
# TYPE spore_logs_given_total counter
spore_logs_given_total{receiver="a"} 1
spore_logs_given_total{receiver="b"} 0
`, strings.Join(strings.SplitAfter(string(Metrics(map[string]Counts{"b": {}, "a": {Given: 1}})), "\n")[:4], ""))
}
