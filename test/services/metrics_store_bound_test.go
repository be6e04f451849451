//go:build e2e

package services

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"spore/services/metrics"
	"spore/services/metrics/room"
	"spore/services/metrics/unit"
	"spore/test/testca"
)

// post sends something to the store, as its user.
func (s *metricsStore) post(path string, body io.Reader) {
	s.t.Helper()
	q, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.at.Address+path, body)
	require.NoError(s.t, err)
	q.SetBasicAuth(metrics.User, "swordfish")
	r, err := http.DefaultClient.Do(q)
	require.NoError(s.t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(s.t, err)
	require.Less(s.t, r.StatusCode, 300, "%s: %s", path, text)
}

// flush writes to the disk what is in memory, and lets queries see it.
func (s *metricsStore) flush() { s.post("/internal/force_flush", nil) }

// noise imports a series with a sample each ten seconds of a day that no compression makes smaller, some 60 KiB.
func (s *metricsStore) noise(name string, day time.Time) {
	s.t.Helper()
	var values, times strings.Builder
	source := rand.New(rand.NewPCG(uint64(day.Unix()), 1))
	for at := day; at.Before(day.Add(24 * time.Hour)); at = at.Add(10 * time.Second) {
		fmt.Fprintf(&values, ",%.15f", source.Float64())
		fmt.Fprintf(&times, ",%d", at.UnixMilli())
	}
	s.post("/api/v1/import", strings.NewReader(fmt.Sprintf("{\"metric\":{\"__name__\":%q},\"values\":[%s],\"timestamps\":[%s]}\n",
		name, values.String()[1:], times.String()[1:])))
}

// supervised starts the store as its unit does.
func (s *metricsStore) supervised(o unit.Options) (said func() string, stop func()) {
	s.t.Helper()
	o.Dir, o.Program, o.Log = s.data, s.args, &s.log
	lines := make(chan string, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- unit.Run(ctx, o, func(line string) { lines <- line }) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil || s.t.Failed() {
			s.t.Errorf("%v\n%s", err, s.log.String())
		}
	})
	s.t.Cleanup(stop)
	s.answers()
	var all []string
	return func() string {
		for len(lines) > 0 {
			all = append(all, <-lines)
		}
		return strings.Join(all, "\n")
	}, stop
}

// answers waits until the store answers.
func (s *metricsStore) answers() {
	s.t.Helper()
	require.Eventually(s.t, func() bool { _, err := s.query(map[string]string{"query": "vector(1)"}); return err == nil },
		30*time.Second, 50*time.Millisecond, "the store does not answer: %s", s.log.String())
}

// The data of the real store are held to a bound: what is oldest goes, what is new stays, and the store goes on.
func TestTheStoreOfMetricsKeepsToItsSize(t *testing.T) {
	ca, err := testca.New("agent")
	require.NoError(t, err)
	s := newMetricsStore(t, ca, nil, nil)
	s.args = append(s.args, "-retentionPeriod=400d", "-storage.minFreeDiskSpaceBytes=1MiB")
	today := time.Now().UTC().Truncate(24 * time.Hour)
	have := func(name string, day time.Time) bool {
		return s.value(fmt.Sprintf("count(last_over_time(%s[1d] @ %d))", name, day.Add(24*time.Hour-time.Second).Unix())) == "1"
	}
	months := []time.Time{today.AddDate(0, -5, 0), today.AddDate(0, -4, 0), today.AddDate(0, -3, 0), today.AddDate(0, -2, 0), today.AddDate(0, 0, -1)}
	fill := func() {
		for _, day := range months {
			for i := range 10 {
				s.noise(fmt.Sprintf("noise_%d", i), day)
			}
		}
		s.flush()
		for _, day := range months {
			require.True(t, have("noise_9", day), day)
		}
	}

	t.Run("what is oldest goes, and it goes on", func(t *testing.T) {
		_, stop := s.supervised(unit.Options{Look: time.Hour})
		fill()
		stop()
		all, err := room.Bytes(s.data)
		require.NoError(t, err)
		require.Greater(t, all, uint64(2<<20))

		said, stop := s.supervised(unit.Options{Look: 100 * time.Millisecond, Pause: time.Second, Bytes: all / 2})
		require.Eventually(t, func() bool { return strings.Contains(said(), "of the oldest go") }, 30*time.Second, 100*time.Millisecond)
		s.answers()
		require.False(t, have("noise_0", months[0]))
		require.True(t, have("noise_9", months[4]))
		left, err := room.Bytes(s.data)
		require.NoError(t, err)
		require.LessOrEqual(t, left, all/2)

		// It takes samples of before and of today, and finds them: no cache knows series of an index that went.
		for _, day := range []time.Time{months[0], months[4], today} {
			s.noise("noise_0", day.Add(-48*time.Hour))
			s.noise("another", day.Add(-48*time.Hour))
		}
		s.flush()
		require.True(t, have("noise_0", months[0].Add(-48*time.Hour)))
		require.True(t, have("another", today.Add(-48*time.Hour)))
		stop()
	})
	t.Run("each time that it fills more", func(t *testing.T) {
		const bound = 3 << 20
		said, stop := s.supervised(unit.Options{Look: 100 * time.Millisecond, Pause: time.Second, Bytes: bound})
		for i := range 12 {
			for j := range 10 {
				s.noise(fmt.Sprintf("noise_%d", j), today.AddDate(0, 0, -13+i))
			}
			s.flush()
			require.Eventually(t, func() bool { n, err := room.Bytes(s.data); return err == nil && n <= bound }, 30*time.Second, 100*time.Millisecond)
			s.answers()
			require.True(t, have("noise_9", today.AddDate(0, 0, -13+i)), "the newest, after %d\n%s", i, said())
		}
		stop()
	})
}

// On a disk that is full, for whatever reason, old samples go and new ones come.
func TestTheStoreOfMetricsOnAFullDisk(t *testing.T) {
	ca, err := testca.New("agent")
	require.NoError(t, err)
	s := newMetricsStore(t, ca, nil, nil)
	s.args = append(s.args, "-retentionPeriod=400d", "-storage.minFreeDiskSpaceBytes=1MiB")
	today := time.Now().UTC().Truncate(24 * time.Hour)
	yesterday := today.AddDate(0, 0, -1)
	// Of other months than yesterday, on each day of a year: a month has files of its own.
	older, old := today.AddDate(0, 0, -70), today.AddDate(0, 0, -35)
	_, stop := s.supervised(unit.Options{Look: time.Hour})
	for i := range 10 {
		for _, day := range []time.Time{older, old, yesterday} {
			s.noise(fmt.Sprintf("noise_%d", i), day)
		}
	}
	s.flush()
	stop()

	// The disk of this machine is one of which more should be free than is.
	var disk unix.Statfs_t
	require.NoError(t, unix.Statfs(s.data, &disk))
	all := disk.Blocks * uint64(disk.Bsize)
	said, stop := s.supervised(unit.Options{Look: 100 * time.Millisecond, Pause: time.Second, Floor: all + 1, Enough: all + 2})
	require.Contains(t, said(), "of the oldest go")
	count := func(day time.Time) string {
		return s.value(fmt.Sprintf("count(last_over_time({__name__=~\"noise_.\"}[1d] @ %d))", day.Add(24*time.Hour-time.Second).Unix()))
	}
	require.Empty(t, count(older))
	require.Empty(t, count(old))
	require.Equal(t, "10", count(yesterday), "the last day stays, since others may have filled the disk")
	s.post("/api/v1/import/prometheus", strings.NewReader(fmt.Sprintf("after 1 %d\n", time.Now().Add(-time.Minute).UnixMilli())))
	s.flush()
	require.Equal(t, "1", s.value("after"))
	// It does not start again and again where nothing more can go.
	began := s.value("process_start_time_seconds")
	time.Sleep(3 * time.Second)
	require.Equal(t, began, s.value("process_start_time_seconds"))
	stop()
}
