package take

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"spore/agent/logs/spool"
	"spore/services/logs"
	"spore/wire/journalexport"
	"spore/wire/nodeapi"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// memory is a queue in memory.
type memory struct {
	mu    sync.Mutex
	lines []byte
	marks map[string]uint64
	err   error
	wait  chan struct{}
}

func (m *memory) AppendMarked(_ context.Context, lines []byte, of []spool.Mark) error {
	if m.wait != nil {
		<-m.wait
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.lines = append(m.lines, lines...)
	for _, k := range of {
		m.marks[k.Group+" "+k.ID] = max(m.marks[k.Group+" "+k.ID], k.Value)
	}
	return nil
}

func (m *memory) Mark(group, id string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks[group+" "+id]
}

func (m *memory) entries(t *testing.T) []map[string]string {
	t.Helper()
	var out []map[string]string
	for l := range bytes.Lines(m.lines) {
		var e map[string]string
		require.NoError(t, json.Unmarshal(l, &e), "%q", l)
		require.True(t, utf8.Valid(l))
		out = append(out, e)
	}
	return out
}

func newTaker(t *testing.T) (*Taker, *memory) {
	t.Helper()
	m := &memory{marks: map[string]uint64{}}
	taker, err := New(Options{
		Queue: m, Cluster: "plant", Roles: map[string]string{"edge-01": "mqtt-broker,worker"}, Days: 30,
		Say: func(text string) { t.Log(text) }, Now: func() time.Time { return now },
	})
	require.NoError(t, err)
	return taker, m
}

func pack(t testing.TB, data []byte) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	return e.EncodeAll(data, nil)
}

// bring brings a body, as edge-01.
func bring(t testing.TB, taker *Taker, body io.Reader, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, nodeapi.EntriesPath, body)
	r.Header.Set("Content-Type", journalexport.ContentType)
	r.Header.Set("Content-Encoding", "zstd")
	r.Header.Set(nodeapi.EntriesOf, "edge-01")
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	taker.ServeHTTP(w, r)
	return w
}

func batchOf(t testing.TB, entries ...journalexport.Entry) io.Reader {
	var data []byte
	for _, e := range entries {
		data = journalexport.Append(data, e)
	}
	return bytes.NewReader(pack(t, data))
}

// entry makes one of names and values.
func entry(parts ...string) journalexport.Entry {
	var e journalexport.Entry
	for i := 0; i < len(parts); i += 2 {
		e = append(e, journalexport.Field{Name: parts[i], Value: []byte(parts[i+1])})
	}
	return e
}

// numbered is the entry of a number in a journal.
func numbered(n int) journalexport.Entry {
	return entry("__CURSOR", cursor("a", "b", n), "__REALTIME_TIMESTAMP", micros(now), "MESSAGE", fmt.Sprint(n), "_SPORE_SOURCE", "journal")
}

func cursor(s, b string, n int) string {
	return fmt.Sprintf("s=%s;i=%x;b=%s;m=1;t=2;x=3", strings.Repeat(s, 32), n, strings.Repeat(b, 32))
}

func micros(at time.Time) string { return fmt.Sprint(at.UnixMicro()) }

func TestAnEntryBecomesALine(t *testing.T) {
	at := now.Add(-time.Second).Add(123456 * time.Microsecond)
	const shown = "2026-11-26T11:59:59.123456Z"
	for name, c := range map[string]struct {
		in   journalexport.Entry
		want map[string]string
	}{
		"its fields keep their names": {
			entry("__CURSOR", "s=1", "__REALTIME_TIMESTAMP", micros(at), "__MONOTONIC_TIMESTAMP", "5", "MESSAGE", "hello", "PRIORITY", "6",
				"_SYSTEMD_UNIT", "sshd.service", "_SPORE_SOURCE", "journal"),
			map[string]string{"_time": shown, "_msg": "hello", "__CURSOR": "s=1", "PRIORITY": "6", "_SYSTEMD_UNIT": "sshd.service"},
		},
		"what is forged is left out": {
			entry("__REALTIME_TIMESTAMP", micros(at), "MESSAGE", "x", "_SPORE_TIME", "1", "_SPORE_NODE", "other", "_SPORE_SOURCE", "audit", "NODE", "other"),
			map[string]string{"_time": shown, "_msg": "x", "_SPORE_SOURCE": "audit", "NODE": "other"},
		},
		"a source that there is not": {
			entry("__REALTIME_TIMESTAMP", micros(at), "MESSAGE", "x", "_SPORE_SOURCE", "store"),
			map[string]string{"_time": shown, "_msg": "x"},
		},
		"fields of a name are joined, and empty ones are none": {
			entry("__REALTIME_TIMESTAMP", micros(at), "MESSAGE", "x", "A", "1", "EMPTY", "", "A", "", "A", "2"),
			map[string]string{"_time": shown, "_msg": "x", "A": "1\n\n2"},
		},
		"messages are joined": {
			entry("__REALTIME_TIMESTAMP", micros(at), "MESSAGE", "", "MESSAGE", "y"),
			map[string]string{"_time": shown, "_msg": "\ny"},
		},
		"an entry without a message": {
			entry("__REALTIME_TIMESTAMP", micros(at), "MESSAGE", "", "A", "1"),
			map[string]string{"_time": shown, "_msg": "(no message)", "A": "1"},
		},
		"what is not text": {
			entry("__REALTIME_TIMESTAMP", micros(at), "MESSAGE", "a\x00b\xffc\x1b[2J\"\\\nä\xe2\x80"),
			map[string]string{"_time": shown, "_msg": `a\x00b\xffc` + "\x1b[2J\"\\\nä" + `\xe2\x80`},
		},
		"an entry that something was cut off": {
			entry("__REALTIME_TIMESTAMP", micros(at), "MESSAGE", "x", "_SPORE_CUT", "7"),
			map[string]string{"_time": shown, "_msg": "x", "_SPORE_CUT": "7"},
		},
		"no time": {
			entry("MESSAGE", "x"), map[string]string{"_time": "2026-11-26T12:00:00Z", "_msg": "x", "_SPORE_TIME": "store"},
		},
		"a time that is none": {
			entry("__REALTIME_TIMESTAMP", "-5", "MESSAGE", "x"),
			map[string]string{"_time": "2026-11-26T12:00:00Z", "_msg": "x", "_SPORE_TIME": "store"},
		},
		"a time that is to come": {
			entry("__REALTIME_TIMESTAMP", micros(now.Add(11*time.Minute)), "MESSAGE", "x"),
			map[string]string{"_time": "2026-11-26T12:00:00Z", "_msg": "x", "_SPORE_TIME": "2026-11-26T12:11:00Z"},
		},
		"a time that is just to come": {
			entry("__REALTIME_TIMESTAMP", micros(now.Add(9*time.Minute)), "MESSAGE", "x"),
			map[string]string{"_time": "2026-11-26T12:09:00Z", "_msg": "x"},
		},
		"a time that is long ago": {
			entry("__REALTIME_TIMESTAMP", "1000000", "MESSAGE", "x"),
			map[string]string{"_time": "2026-11-26T12:00:00Z", "_msg": "x", "_SPORE_TIME": "1970-01-01T00:00:01Z"},
		},
		"a time that no calendar has": {
			entry("__REALTIME_TIMESTAMP", "9223372036854775807", "MESSAGE", "x"),
			map[string]string{"_time": "2026-11-26T12:00:00Z", "_msg": "x", "_SPORE_TIME": "9223372036854775807"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			taker, m := newTaker(t)
			w := bring(t, taker, batchOf(t, c.in))
			require.Equal(t, http.StatusNoContent, w.Code, w.Body)
			c.want["cluster"], c.want["node"], c.want["role"] = "plant", "edge-01", "mqtt-broker,worker"
			if c.want["_SPORE_SOURCE"] == "" {
				c.want["_SPORE_SOURCE"] = "journal"
			}
			require.Equal(t, []map[string]string{c.want}, m.entries(t))
		})
	}
}

func TestTheLongestEntryIsALineThatIsTaken(t *testing.T) {
	taker, m := newTaker(t)
	e := entry("__REALTIME_TIMESTAMP", micros(now), "MESSAGE", strings.Repeat("\x01", journalexport.MaxValue))
	for i := range 6 {
		e = append(e, journalexport.Field{Name: fmt.Sprint("A", i), Value: bytes.Repeat([]byte{1}, journalexport.MaxValue)})
	}
	require.Equal(t, http.StatusNoContent, bring(t, taker, batchOf(t, e, numbered(1))).Code)
	require.Len(t, m.entries(t), 2)
	for l := range bytes.Lines(m.lines) {
		require.LessOrEqual(t, len(l), spool.MaxLines)
	}
}

func TestWhatComesAgainIsLeftOut(t *testing.T) {
	taker, m := newTaker(t)
	messages := func() (out []string) {
		for _, e := range m.entries(t) {
			out = append(out, e["_msg"])
		}
		m.lines = nil
		return out
	}
	ok := func(entries ...journalexport.Entry) {
		t.Helper()
		require.Equal(t, http.StatusNoContent, bring(t, taker, batchOf(t, entries...)).Code)
	}
	ok(numbered(1), numbered(2), numbered(2), numbered(3))
	require.Equal(t, []string{"1", "2", "3"}, messages())
	ok(numbered(2), numbered(3), numbered(4))
	require.Equal(t, []string{"4"}, messages())
	ok(numbered(4))
	require.Empty(t, messages())

	// A journal that lost its end with the power gives its numbers again, in the next start.
	ok(entry("__CURSOR", cursor("a", "c", 3), "MESSAGE", "new start"))
	ok(entry("__CURSOR", cursor("d", "b", 3), "MESSAGE", "new journal"))
	require.Equal(t, []string{"new start", "new journal"}, messages())

	file := func(id string, n int) journalexport.Entry {
		return entry("__CURSOR", fmt.Sprintf("file=%s;offset=%d", id, n), "MESSAGE", fmt.Sprint(id, n), "_SPORE_SOURCE", "pod")
	}
	ok(file("x", 0), file("y", 0), file("x", 10))
	ok(file("x", 0), file("x", 10), file("x", 20), file("y", 0))
	require.Equal(t, []string{"x0", "y0", "x10", "x20"}, messages())

	// A message in parts ends behind one of the other stream that began later.
	of := func(stream string, n int) journalexport.Entry {
		return append(file("z", n), journalexport.Field{Name: "KUBERNETES_STREAM", Value: []byte(stream)})
	}
	ok(of("stderr", 50), of("stdout", 40))
	ok(of("stderr", 50), of("stdout", 40), of("stdout", 60))
	require.Equal(t, []string{"z50", "z40", "z60"}, messages())

	// What has no place is taken each time.
	for _, c := range []string{"", "x", "s=1;i=2;b=3", "file=a", "file=a;offset=-1", "file=a\tb;offset=1", cursor("a", "b", 1) + ";i=zz"} {
		ok(entry("__CURSOR", "q;"+strings.ReplaceAll(c, "i=1;", "")), entry("MESSAGE", "z"))
	}
	require.Len(t, messages(), 14)
	w := bring(t, taker, batchOf(t, numbered(1)), func(r *http.Request) { r.Header.Set(nodeapi.EntriesOf, "edge-02") })
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Equal(t, "edge-02", m.entries(t)[0]["node"], "each node has its own numbers")
	require.Contains(t, string(taker.Metrics()), "spore_logs_store_duplicates_total{node=\"edge-01\"} 9\n")
}

func TestWhatIsRefusedIsNotRemembered(t *testing.T) {
	taker, m := newTaker(t)
	for err, text := range map[error]string{
		spool.ErrFull: "the queue is full", spool.ErrNoSpace: "disk of the queue is full", errors.New("input/output error"): "input/output",
	} {
		m.err = err
		w := bring(t, taker, batchOf(t, numbered(1)))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "5", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), text)
	}
	m.err = nil
	require.Equal(t, http.StatusNoContent, bring(t, taker, batchOf(t, numbered(1))).Code)
	require.Len(t, m.entries(t), 1)
	require.Zero(t, taker.held)
}

func TestHostileBodiesAreRefused(t *testing.T) {
	good := journalexport.Append(nil, numbered(1))
	var endless io.Reader = endlessReader{}
	for name, c := range map[string]struct {
		body   io.Reader
		change func(*http.Request)
		status int
		kept   int
	}{
		"not packed":                {bytes.NewReader(good), nil, http.StatusBadRequest, 0},
		"a packing that is cut off": {bytes.NewReader(pack(t, good)[:20]), nil, http.StatusBadRequest, 0},
		"no packing said":           {bytes.NewReader(good), func(r *http.Request) { r.Header.Del("Content-Encoding") }, http.StatusBadRequest, 0},
		"another packing":           {bytes.NewReader(good), func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, http.StatusBadRequest, 0},
		"another type":              {batchOf(t, numbered(1)), func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }, http.StatusBadRequest, 0},
		"a bomb":                    {bytes.NewReader(pack(t, make([]byte, 1<<30))), nil, http.StatusRequestEntityTooLarge, 0},
		"too long":                  {endless, nil, http.StatusRequestEntityTooLarge, 0},
		"too long as it says":       {endless, func(r *http.Request) { r.ContentLength = 1 << 40 }, http.StatusRequestEntityTooLarge, 0},
		"malformed at its end":      {bytes.NewReader(pack(t, append(good, "A\n\xff\xff\xff\xff\xff\xff\xff\xff"...))), nil, http.StatusBadRequest, 1},
		"cut off":                   {bytes.NewReader(pack(t, append(good, "A=1"...))), nil, http.StatusBadRequest, 1},
		"no node":                   {batchOf(t, numbered(1)), func(r *http.Request) { r.Header.Del(nodeapi.EntriesOf) }, http.StatusNotFound, 0},
		"another path":              {batchOf(t, numbered(1)), func(r *http.Request) { r.URL.Path = "/metrics" }, http.StatusNotFound, 0},
		"another method":            {batchOf(t, numbered(1)), func(r *http.Request) { r.Method = http.MethodGet }, http.StatusNotFound, 0},
		"a body that breaks":        {io.MultiReader(bytes.NewReader(pack(t, good)), brokenReader{}), nil, http.StatusServiceUnavailable, 0},
		"nothing":                   {batchOf(t), nil, http.StatusNoContent, 0},
	} {
		t.Run(name, func(t *testing.T) {
			taker, m := newTaker(t)
			change := c.change
			if change == nil {
				change = func(*http.Request) {}
			}
			w := bring(t, taker, c.body, change)
			require.Equal(t, c.status, w.Code, w.Body)
			require.Len(t, m.entries(t), c.kept)
			require.Zero(t, taker.held)
		})
	}
}

type endlessReader struct{}

func (endlessReader) Read(b []byte) (int, error) { return len(b), nil }

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestANodeThatBringsTooMuchWaitsAndOthersDoNot(t *testing.T) {
	taker, _ := newTaker(t)
	at := now
	taker.o.Now = func() time.Time { return at }
	other := func(r *http.Request) { r.Header.Set(nodeapi.EntriesOf, "edge-02") }
	full := batchOf(t, entry("MESSAGE", strings.Repeat("x", 60<<10)))
	many := make([]journalexport.Entry, 60)
	for i := range many {
		many[i] = entry("MESSAGE", strings.Repeat("x", 60<<10))
	}
	refused := 0
	for range 20 {
		w := bring(t, taker, batchOf(t, many...))
		if w.Code == http.StatusServiceUnavailable {
			refused++
			require.Equal(t, "1", w.Header().Get("Retry-After"))
		}
	}
	require.Equal(t, 10, refused, "it brought more than a burst")
	require.Equal(t, http.StatusNoContent, bring(t, taker, full, other).Code)
	at = at.Add(2 * time.Second)
	require.Equal(t, http.StatusNoContent, bring(t, taker, batchOf(t, many...)).Code)
	at = at.Add(-time.Hour)
	require.Contains(t, []int{http.StatusNoContent, http.StatusServiceUnavailable}, bring(t, taker, batchOf(t, many...)).Code)
}

func TestOneNodeHasOneBatchTakenAtATime(t *testing.T) {
	taker, m := newTaker(t)
	m.wait = make(chan struct{})
	var all sync.WaitGroup
	codes := make(chan int, 10)
	for i := range 10 {
		all.Go(func() { codes <- bring(t, taker, batchOf(t, numbered(i+1))).Code })
	}
	for range 10 - maxQueue {
		require.Equal(t, http.StatusServiceUnavailable, <-codes)
	}
	close(m.wait)
	all.Wait()
	for range maxQueue {
		require.Equal(t, http.StatusNoContent, <-codes)
	}
	require.NotEmpty(t, m.entries(t))
	require.IsIncreasing(t, func() (out []string) {
		for _, e := range m.entries(t) {
			out = append(out, fmt.Sprintf("%2s", e["_msg"]))
		}
		return out
	}())
}

// FuzzTake brings any entries: each line is good JSON.
func FuzzTake(f *testing.F) {
	f.Add(journalexport.Append(nil, numbered(1)))
	f.Add([]byte("MESSAGE\n\x03\x00\x00\x00\x00\x00\x00\x00\xff\x00\n\n__CURSOR=file=a;offset=3\n\n"))
	d := make(chan *zstd.Decoder, 1)
	f.Fuzz(func(t *testing.T, data []byte) {
		m := &memory{marks: map[string]uint64{}}
		taker := &Taker{o: Options{Queue: m, Cluster: "c", Days: 1, Say: func(string) {}, Now: func() time.Time { return now }}, decoders: d, nodes: map[string]*node{}}
		var held int
		_ = taker.take(t.Context(), "n", data, &held)
		for _, e := range m.entries(t) {
			require.NotEmpty(t, e["_time"])
			require.Equal(t, "n", e["node"])
			require.NotEmpty(t, e["_msg"])
		}
	})
}

// A program can write any field into the journal that does not begin with an underscore.
func TestOnlyEntriesOfPodsSayWhichPod(t *testing.T) {
	of := func(source string) journalexport.Entry {
		return entry("MESSAGE", "x", "_SPORE_SOURCE", source, "KUBERNETES_NAMESPACE", "plant", "KUBERNETES_POD", "press-0",
			"KUBERNETES_CONTAINER", "main", "KUBERNETES_STREAM", "stdout", "KUBERNETES_OTHER", "y")
	}
	taker, m := newTaker(t)
	w := bring(t, taker, batchOf(t, of("journal"), of("audit"), of("pod")))
	require.Equal(t, http.StatusNoContent, w.Code, w.Body)
	got := m.entries(t)
	require.Len(t, got, 3)
	for i, pod := range []string{"", "", "press-0"} {
		require.Equal(t, pod, got[i]["KUBERNETES_POD"])
		require.Equal(t, pod != "", got[i]["KUBERNETES_NAMESPACE"] != "")
		require.Equal(t, pod != "", got[i]["KUBERNETES_CONTAINER"] != "")
		require.Equal(t, pod != "", got[i]["KUBERNETES_STREAM"] != "")
		require.Equal(t, "y", got[i]["KUBERNETES_OTHER"])
	}
}

func TestSeriesThatANodeMakesUpAreNotAllRemembered(t *testing.T) {
	taker, m := newTaker(t)
	var all []journalexport.Entry
	for i := range 4 * spool.MaxSources {
		all = append(all, entry("__CURSOR", fmt.Sprintf("file=%d;offset=0", i), "MESSAGE", "x"))
	}
	w := bring(t, taker, batchOf(t, all...))
	require.Equal(t, http.StatusNoContent, w.Code, w.Body)
	require.Len(t, m.entries(t), 4*spool.MaxSources)
	require.Len(t, m.marks, spool.MaxSources)
	require.EqualValues(t, 1, m.Mark("edge-01", fmt.Sprintf("file=%d;", 4*spool.MaxSources-1)))
}

func TestANodeThatBringsNonsenseWaitsToo(t *testing.T) {
	taker, _ := newTaker(t)
	bomb := pack(t, make([]byte, 8<<20))
	codes := map[int]int{}
	for range 20 {
		codes[bring(t, taker, bytes.NewReader(bomb)).Code]++
	}
	require.Equal(t, 20, codes[http.StatusRequestEntityTooLarge]+codes[http.StatusServiceUnavailable])
	require.LessOrEqual(t, codes[http.StatusRequestEntityTooLarge], burst/nodeapi.MaxEntries+1)
	require.Equal(t, http.StatusNoContent, bring(t, taker, batchOf(t, numbered(1)), func(r *http.Request) {
		r.Header.Set(nodeapi.EntriesOf, "edge-02")
	}).Code)
}

func TestABatchThatMemoryHasNoRoomForIsNotMalformed(t *testing.T) {
	taker, _ := newTaker(t)
	packed := pack(t, bytes.Repeat([]byte("MESSAGE=x\n\n"), 1000))
	taker.held = maxHeld - len(packed)
	w := bring(t, taker, bytes.NewReader(packed))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "too many batches at once")
	require.Contains(t, string(taker.Metrics()), `spore_logs_store_malformed_total{node="edge-01"} 0`)
	taker.held = 0
	require.Equal(t, http.StatusNoContent, bring(t, taker, bytes.NewReader(packed)).Code)
}

// Whose clock is not that of the store is told, as long as the node sends something.
func TestTheClockOfANodeIsComparedWithThatOfTheStore(t *testing.T) {
	taker, _ := newTaker(t)
	clock := now.Add(700 * time.Millisecond)
	taker.o.Now = func() time.Time { return clock }
	told := func() (out []string) {
		for line := range strings.Lines(string(taker.Metrics())) {
			if strings.HasPrefix(line, logs.ClockAhead+"{") {
				out = append(out, strings.TrimSpace(line))
			}
		}
		return out
	}
	by := func(node, date string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(nodeapi.EntriesOf, node); r.Header.Set("Date", date) }
	}
	said := func(at time.Time) string { return at.UTC().Format(http.TimeFormat) }
	require.Equal(t, http.StatusNoContent, bring(t, taker, batchOf(t, numbered(1))).Code)
	require.Empty(t, told(), "it has not said its time")
	bring(t, taker, batchOf(t), by("edge-02", "yesterday"))
	require.Empty(t, told())
	bring(t, taker, batchOf(t, numbered(2)), by("edge-01", said(now)))
	bring(t, taker, batchOf(t), by("edge-02", said(now.Add(-time.Hour))))
	require.Equal(t, http.StatusBadRequest, bring(t, taker, strings.NewReader("nonsense"), by("edge-03", said(now.Add(45*time.Second)))).Code)
	require.Equal(t, []string{
		logs.ClockAhead + `{node="edge-01"} 0`, logs.ClockAhead + `{node="edge-02"} -3600`, logs.ClockAhead + `{node="edge-03"} 45`,
	}, told())
	clock = clock.Add(8 * time.Minute)
	bring(t, taker, batchOf(t), by("edge-02", said(clock)))
	clock = clock.Add(8 * time.Minute)
	require.Equal(t, []string{logs.ClockAhead + `{node="edge-02"} 0`}, told(), "nobody knows what the others' clocks are by now")
}
