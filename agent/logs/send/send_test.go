package send

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"spore/services/logs/sending"
	"spore/test/chance"
	"spore/test/testca"
	"spore/wire/journalexport"
	"spore/wire/nodeapi"
)

// storeSim is a store as nodes see it.
type storeSim struct {
	*httptest.Server
	mu sync.Mutex
	// answer decides about a batch before it is kept; nil takes all. It may answer by itself, and return true then.
	answer func(w http.ResponseWriter, entries []journalexport.Entry) bool
	// have are the cursors that it has, in the order in which it got them first; count is how often each came.
	have    []string
	count   map[string]int
	entries map[string]journalexport.Entry
	largest int
	wrong   error
}

func newStore(t *testing.T, ca *testca.CA) *storeSim {
	t.Helper()
	s := &storeSim{count: map[string]int{}, entries: map[string]journalexport.Entry{}}
	cert, key, err := ca.Server("store.test")
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	s.Server = httptest.NewUnstartedServer(s)
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(), MinVersion: tls.VersionTLS13,
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *storeSim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // The node was cut off, or has ended.
	}
	entries, size, err := batchOf(r, body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.largest = max(s.largest, size)
	if err != nil {
		s.wrong = err
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if s.answer != nil && s.answer(w, entries) {
		return
	}
	s.keep(entries)
	w.WriteHeader(http.StatusNoContent)
}

func (s *storeSim) keep(entries []journalexport.Entry) {
	for _, e := range entries {
		cursor, _ := e.Get(CursorField)
		if s.count[cursor]++; s.count[cursor] == 1 {
			s.have = append(s.have, cursor)
			s.entries[cursor] = e
		}
	}
}

// batchOf reads a batch; the error is of what a store would not expect of a node.
func batchOf(r *http.Request, body []byte) (entries []journalexport.Entry, size int, err error) {
	if r.Method != http.MethodPost || r.URL.Path != nodeapi.EntriesPath || r.Header.Get("Content-Type") != journalexport.ContentType ||
		r.Header.Get("Content-Encoding") != "zstd" || r.ContentLength <= 0 {
		return nil, 0, fmt.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	if at, err := http.ParseTime(r.Header.Get("Date")); err != nil || time.Since(at).Abs() > time.Minute {
		return nil, 0, fmt.Errorf("it does not say the time: %v (%w)", r.Header, err)
	}
	z, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, 0, err
	}
	defer z.Close()
	data, err := io.ReadAll(z)
	if err != nil {
		return nil, 0, err
	}
	in := journalexport.NewReader(bytes.NewReader(data))
	for {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			return entries, len(data), nil
		}
		if err != nil {
			return nil, 0, err
		}
		entries = append(entries, e)
	}
}

func (s *storeSim) set(answer func(http.ResponseWriter, []journalexport.Entry) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *storeSim) cursors() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.have...)
}

// node is a node with its journal and spore-logs.
type node struct {
	t      *testing.T
	dir    string
	config sending.Config
	// sources are those besides the journal.
	sources []Source

	mu sync.Mutex
	// journal has the entries that were written.
	journal []journalexport.Entry
	said    []string

	sender *Sender
	at     string
	stop   func()
}

func newNode(t *testing.T, ca *testca.CA, stores ...*storeSim) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir()}
	file := func(name string, data []byte) string {
		path := filepath.Join(n.dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	cert, key, err := ca.Issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "node-1", Organization: []string{"spore:sender"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	require.NoError(t, err)
	n.config = sending.Config{CA: file("ca", ca.PEM()), Certificate: file("cert", cert), Key: file("key", key)}
	for i, s := range stores {
		n.config.Stores = append(n.config.Stores, sending.Store{
			Name: fmt.Sprintf("store-%d", i+1), Address: s.Listener.Addr().String(), ServerName: "store.test",
		})
	}
	t.Cleanup(func() { n.end() })
	return n
}

func (n *node) options() Options {
	return Options{
		Config: n.config, Dir: filepath.Join(n.dir, "state"), RunDir: n.dir, Sources: n.sources, Now: time.Now,
		May: func(net.Conn) error { return nil }, Status: func(string) {},
		Say: func(s string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.said = append(n.said, s)
		},
		linger: 20 * time.Millisecond, pause: 5 * time.Millisecond,
	}
}

// start starts spore-logs.
func (n *node) start() {
	n.t.Helper()
	n.startWith(n.options())
}

func (n *node) startWith(o Options) {
	n.t.Helper()
	s, err := New(o)
	require.NoError(n.t, err)
	at := n.at
	if at == "" {
		at = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", at)
	require.NoError(n.t, err)
	if n.at == "" {
		n.at = l.Addr().String()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	n.sender = s
	n.stop = func() {
		cancel()
		require.NoError(n.t, <-ended)
	}
}

func (n *node) end() {
	if n.stop != nil {
		n.stop()
		n.stop = nil
	}
}

const seriesID, bootID = "0123456789abcdef0123456789abcdef", "fedcba98765432100123456789abcdef"

func cursorOf(boot string, number int) string {
	return fmt.Sprintf("s=%s;i=%x;b=%s;m=1;t=2;x=3", seriesID, number, boot)
}

func field(name, value string) journalexport.Field {
	return journalexport.Field{Name: name, Value: []byte(value)}
}

func entryOf(number int, fields ...journalexport.Field) journalexport.Entry {
	return append(journalexport.Entry{
		field(CursorField, cursorOf(bootID, number)), field(TimeField, fmt.Sprint(time.Now().UnixMicro())),
		field("MESSAGE", fmt.Sprintf("message %d", number)), field("_SYSTEMD_UNIT", "a.service"),
	}, fields...)
}

// write writes entries with the numbers from first to last.
func (n *node) write(first, last int) {
	for i := first; i <= last; i++ {
		n.log(entryOf(i))
	}
}

func (n *node) log(e ...journalexport.Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.journal = append(n.journal, e...)
}

func (n *node) behind(at int) []journalexport.Entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.journal[at:len(n.journal):len(n.journal)]
}

// uploader is systemd-journal-upload: it posts what is behind its state, and saves the state when that was answered.
type uploader struct {
	node  *node
	store int
	// state is the count of entries that it does not send again.
	state int
	// saved is called when the state was saved.
	saved func(state int)
	// cut tells after how many bytes the connection of the next upload is cut; negative is never.
	cut func() int
}

// cutter is a body that ends with an error.
type cutter struct {
	io.Reader
	left int
}

var errCut = errors.New("the cable is pulled")

func (c *cutter) Read(p []byte) (int, error) {
	if c.left < 0 {
		return c.Reader.Read(p)
	}
	if c.left == 0 {
		return 0, errCut
	}
	n, err := c.Reader.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// upload posts once.
func (u *uploader) upload(ctx context.Context, client *http.Client) error {
	entries := u.node.behind(u.state)
	if len(entries) == 0 {
		return sleep(ctx, time.Millisecond)
	}
	var data []byte
	for _, e := range entries {
		data = journalexport.Append(data, e)
	}
	body := &cutter{bytes.NewReader(data), -1}
	if u.cut != nil {
		body.left = u.cut()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://%s/stores/%d/upload", u.node.at, u.store), io.NopCloser(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", journalexport.ContentType)
	got, err := client.Do(r)
	if err != nil {
		return err
	}
	got.Body.Close()
	if got.StatusCode >= 300 {
		return errors.New(got.Status)
	}
	u.state += len(entries)
	if u.saved != nil {
		u.saved(u.state)
	}
	return nil
}

// run posts until ctx is over, with a new process after each failure.
func (u *uploader) run(ctx context.Context) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		if u.upload(ctx, client) != nil {
			client.CloseIdleConnections()
			_ = sleep(ctx, 2*time.Millisecond)
		}
	}
}

// uploads starts journal-upload for a store.
func (n *node) uploads(u *uploader) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { u.run(ctx); close(done) }()
	n.t.Cleanup(func() { cancel(); <-done })
}

func (n *node) counter(name, labels string) float64 {
	n.sender.counters.mu.Lock()
	defer n.sender.counters.mu.Unlock()
	return n.sender.counters.values[name][labels]
}

func authority(t *testing.T) *testca.CA {
	t.Helper()
	ca, err := testca.New("nodes")
	require.NoError(t, err)
	return ca
}

// hasAll waits until a store has the entries 1 to last, in order.
func hasAll(t *testing.T, s *storeSim, last int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.cursors()) >= last }, 30*time.Second, 2*time.Millisecond)
	want := make([]string, last)
	for i := range want {
		want[i] = cursorOf(bootID, i+1)
	}
	require.Equal(t, want, s.cursors())
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NoError(t, s.wrong)
}

func TestTheJournalComesToEachStore(t *testing.T) {
	ca := authority(t)
	a, b := newStore(t, ca), newStore(t, ca)
	n := newNode(t, ca, a, b)
	n.start()
	n.uploads(&uploader{node: n, store: 1})
	n.uploads(&uploader{node: n, store: 2})
	n.write(1, 100)
	hasAll(t, a, 100)
	n.write(101, 200)
	hasAll(t, a, 200)
	hasAll(t, b, 200)
	e := a.entries[cursorOf(bootID, 7)]
	source, _ := e.Get(SourceField)
	require.Equal(t, Journal, source)
	message, _ := e.Get("MESSAGE")
	require.Equal(t, "message 7", message)
	require.Eventually(t, func() bool {
		return n.counter("spore_logs_acknowledged_total", `{store="store-1",source="journal"}`) == 200
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, n.sender.write())
	text, err := os.ReadFile(filepath.Join(n.dir, CountersFile))
	require.NoError(t, err)
	require.Contains(t, string(text), "# TYPE spore_logs_sent_total counter\nspore_logs_sent_total{store=\"store-1\",source=\"journal\"} 200\n")
}

// What journal-upload takes for sent is on the disk of the store, whatever is cut, and nothing is lost or out of order.
func TestWhateverIsCutNothingIsLost(t *testing.T) {
	seed := chance.Seed(t)
	r := rand.New(rand.NewPCG(seed, 27))
	var mu sync.Mutex
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	ca := authority(t)
	s := newStore(t, ca)
	s.set(func(w http.ResponseWriter, entries []journalexport.Entry) bool {
		switch roll(12) {
		case 0:
			w.Header().Set("Retry-After", "0")
			http.Error(w, "the queue is full", http.StatusServiceUnavailable)
		case 1:
			http.Error(w, "not here", http.StatusNotFound)
		case 2: // It has them, and nobody hears it.
			s.keep(entries)
			panic(http.ErrAbortHandler)
		case 3:
			panic(http.ErrAbortHandler)
		case 4:
			fmt.Fprint(w, "hello") // 204 acknowledges, and 200 does not.
		case 5:
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return len(entries) > 1 || func() bool { s.keep(entries); return true }()
		default:
			return false
		}
		return true
	})
	n := newNode(t, ca, s)
	n.start()
	u := &uploader{node: n, store: 1, cut: func() int {
		if roll(2) == 0 {
			return -1
		}
		return roll(20000)
	}}
	u.saved = func(state int) {
		have := s.cursors()
		if len(have) < state {
			t.Errorf("journal-upload takes %d entries for sent; the store has %d", state, len(have))
		}
	}
	n.uploads(u)
	const last = 3000
	for i := 0; i < last; i += 100 {
		n.write(i+1, i+100)
		time.Sleep(time.Duration(roll(8)) * time.Millisecond)
		if roll(6) == 0 {
			n.end()
			if roll(2) == 0 { // The power was cut: what it knew is lost.
				require.NoError(t, os.RemoveAll(filepath.Join(n.dir, "state")))
			}
			n.start()
		}
	}
	hasAll(t, s, last)
}

func TestTheJournalWaitsForAStoreThatIsAway(t *testing.T) {
	const last = 6000
	ca := authority(t)
	s, other := newStore(t, ca), newStore(t, ca)
	s.set(func(w http.ResponseWriter, _ []journalexport.Entry) bool {
		http.Error(w, "the disk is full", http.StatusServiceUnavailable)
		return true
	})
	n := newNode(t, ca, s, other)
	n.start()
	u := &uploader{node: n, store: 1}
	n.uploads(u)
	n.uploads(&uploader{node: n, store: 2})
	for i := range last { // More than two batches.
		n.log(entryOf(i+1, field("TEXT", strings.Repeat("x", 2000))))
	}
	hasAll(t, other, last)
	require.Empty(t, s.cursors())
	require.Eventually(t, func() bool {
		return strings.Contains(n.sender.stores[0].status(), "store-1: waiting since ")
	}, 30*time.Second, time.Millisecond)
	require.Contains(t, n.sender.stores[0].status(), "the store answers 503: the disk is full")
	require.Equal(t, "store-2: sending", n.sender.stores[1].status())
	require.Positive(t, n.sender.stores[0].queue.waiting())
	require.NoError(t, n.sender.write())
	require.Positive(t, n.counter("spore_logs_behind_seconds", `{store="store-1"}`))
	require.Zero(t, n.counter("spore_logs_store_reached", `{store="store-1"}`))
	require.Less(t, n.counter("spore_logs_sent_total", `{store="store-1",source="journal"}`), float64(last), "the upload waits")
	s.set(nil)
	hasAll(t, s, last)
	require.LessOrEqual(t, s.largest, maxBatch)
	n.mu.Lock()
	defer n.mu.Unlock()
	require.LessOrEqual(t, len(n.said), 3, "%v", n.said)
}

func TestWhatAStoreCallsMalformedIsDroppedAlone(t *testing.T) {
	for status, many := range map[int]bool{http.StatusBadRequest: false, http.StatusRequestEntityTooLarge: true} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			ca := authority(t)
			s := newStore(t, ca)
			s.set(func(w http.ResponseWriter, entries []journalexport.Entry) bool {
				bad := many && len(entries) > 3
				for _, e := range entries {
					text, _ := e.Get("MESSAGE")
					bad = bad || text == "message 13"
				}
				if bad {
					http.Error(w, "no\x1b[2J", status)
				}
				return bad
			})
			n := newNode(t, ca, s)
			n.start()
			n.write(1, 50)
			n.uploads(&uploader{node: n, store: 1})
			require.Eventually(t, func() bool { return len(s.cursors()) == 49 }, 30*time.Second, time.Millisecond)
			require.NotContains(t, s.cursors(), cursorOf(bootID, 13))
			require.Eventually(t, func() bool { return n.counter("spore_logs_malformed_total", `{store="store-1"}`) == 1 }, 30*time.Second, time.Millisecond)
		})
	}
}

func TestAStoreThatRefusesEverythingCostsFewRequests(t *testing.T) {
	ca := authority(t)
	s := newStore(t, ca)
	requests := 0
	s.set(func(w http.ResponseWriter, _ []journalexport.Entry) bool {
		requests++
		http.Error(w, "no", http.StatusBadRequest)
		return true
	})
	n := newNode(t, ca, s)
	n.start()
	n.write(1, 5000)
	u := &uploader{node: n, store: 1}
	n.uploads(u)
	require.Eventually(t, func() bool { return n.counter("spore_logs_malformed_total", `{store="store-1"}`) == 5000 }, 30*time.Second, time.Millisecond)
	require.Less(t, requests, 400)
}

func TestFieldsOfSporeInTheJournalAreForged(t *testing.T) {
	ca := authority(t)
	s := newStore(t, ca)
	n := newNode(t, ca, s)
	n.start()
	n.log(entryOf(1, field(SourceField, "audit"), field("_SPORE_NODE", "other"), field("BIG", strings.Repeat("x", 100<<10))))
	n.uploads(&uploader{node: n, store: 1})
	hasAll(t, s, 1)
	e := s.entries[cursorOf(bootID, 1)]
	source, _ := e.Get(SourceField)
	require.Equal(t, Journal, source)
	_, has := e.Get("_SPORE_NODE")
	require.False(t, has)
	cut, _ := e.Get(journalexport.Cut)
	require.Equal(t, fmt.Sprint(100<<10-64<<10), cut)
	require.EqualValues(t, 1, n.counter("spore_logs_cut_total", `{store="store-1",source="journal"}`))
}

func TestWhatTheJournalHasLostIsCounted(t *testing.T) {
	ca := authority(t)
	s := newStore(t, ca)
	n := newNode(t, ca, s)
	n.start()
	suppressed := entryOf(20, field("_TRANSPORT", "driver"), field("MESSAGE_ID", messageDropped), field("N_DROPPED", "17"))
	missed := journalexport.Entry{field(CursorField, cursorOf(bootID, 21)), field("MESSAGE", "Missed 5 kernel messages"),
		field("MESSAGE_ID", messageMissed), field("_TRANSPORT", "driver")}
	forged := entryOf(22, field("_TRANSPORT", "journal"), field("MESSAGE_ID", messageDropped), field("N_DROPPED", "1000"))
	afterCut := journalexport.Entry{field(CursorField, cursorOf("b2", 15))}
	n.log(entryOf(1), entryOf(11), suppressed, missed, forged, afterCut, journalexport.Entry{field(CursorField, cursorOf("b2", 17))})
	n.uploads(&uploader{node: n, store: 1})
	require.Eventually(t, func() bool { return len(s.cursors()) == 7 }, 30*time.Second, time.Millisecond)
	lost := func(why string) float64 {
		return n.counter("spore_logs_dropped_by_journal_total", `{store="store-1",why="`+why+`"}`)
	}
	require.EqualValues(t, 9+8+1, lost(lostGap))
	require.EqualValues(t, 17, lost(lostRate))
	require.EqualValues(t, 5, lost(lostKernel))
}

func TestWhatIsSentAgainIsLeftOut(t *testing.T) {
	ca := authority(t)
	s := newStore(t, ca)
	n := newNode(t, ca, s)
	n.start()
	n.write(1, 100)
	first := &uploader{node: n, store: 1}
	client := &http.Client{}
	require.NoError(t, first.upload(t.Context(), client))
	n.end() // It knows after a restart, too.
	n.start()
	client.CloseIdleConnections() // To the program that ended: a request would be written to it.
	n.write(101, 101)
	require.NoError(t, (&uploader{node: n, store: 1}).upload(t.Context(), client))
	hasAll(t, s, 101)
	for _, c := range s.cursors() {
		require.Equal(t, 1, s.count[c])
	}
	require.EqualValues(t, 100, n.counter("spore_logs_duplicates_total", `{store="store-1"}`))
}

func TestWhatIsNoUpload(t *testing.T) {
	ca := authority(t)
	s := newStore(t, ca)
	n := newNode(t, ca, s)
	n.start()
	for name, c := range map[string]struct {
		method, path, body string
		status             int
	}{
		"another store":   {"POST", "/stores/2/upload", "", 404},
		"store 0":         {"POST", "/stores/0/upload", "", 404},
		"no number":       {"POST", "/stores/x/upload", "", 404},
		"another path":    {"POST", "/stores/1", "", 404},
		"another method":  {"GET", "/stores/1/upload", "", 405},
		"nothing":         {"POST", "/stores/1/upload", "", 204},
		"garbage":         {"POST", "/stores/1/upload", "A\n\xff\xff\xff\xff\xff\xff\xff\xff", 400},
		"without a place": {"POST", "/stores/1/upload", "MESSAGE=x\n\n", 204},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequest(c.method, "http://"+n.at+c.path, strings.NewReader(c.body))
			require.NoError(t, err)
			got, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			got.Body.Close()
			require.Equal(t, c.status, got.StatusCode)
		})
	}
	require.Equal(t, []string{""}, s.cursors())
}

func TestAnotherProgramIsRefused(t *testing.T) {
	ca := authority(t)
	n := newNode(t, ca, newStore(t, ca))
	o := n.options()
	o.May = func(net.Conn) error { return errors.New("it is of the account 33") }
	n.startWith(o)
	_, err := http.Post("http://"+n.at+"/stores/1/upload", "", strings.NewReader("MESSAGE=x\n\n"))
	require.Error(t, err)
	require.Eventually(t, func() bool { return n.counter("spore_logs_refused_peers_total", "") > 0 }, 30*time.Second, time.Millisecond)
}

func TestAStoreWithAnotherNameOrAuthorityGetsNothing(t *testing.T) {
	ca := authority(t)
	for name, change := range map[string]func(*node){
		"another name": func(n *node) { n.config.Stores[0].ServerName = "other.test" },
		"another authority": func(n *node) {
			require.NoError(n.t, os.WriteFile(n.config.CA, authority(n.t).PEM(), 0o600))
		},
		"no certificate of the node": func(n *node) { require.NoError(n.t, os.Remove(n.config.Certificate)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, ca)
			n := newNode(t, ca, s)
			change(n)
			n.start()
			n.write(1, 1)
			n.uploads(&uploader{node: n, store: 1})
			require.Eventually(t, func() bool { return strings.Contains(n.sender.stores[0].status(), "waiting") }, 30*time.Second, time.Millisecond)
			require.Empty(t, s.cursors())
		})
	}
}

// A certificate that is refused is not shown for as long as there is something to send.
func TestAStoreThatRefusesTheNodeIsAskedByANewConnection(t *testing.T) {
	ca := authority(t)
	s := newStore(t, ca)
	var mu sync.Mutex
	from := map[string]bool{}
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if from[r.RemoteAddr] = true; len(from) < 3 {
			http.Error(w, "this certificate is not of this cluster", http.StatusForbidden)
			return
		}
		s.ServeHTTP(w, r)
	})
	n := newNode(t, ca, s)
	n.start()
	n.write(1, 10)
	n.uploads(&uploader{node: n, store: 1})
	hasAll(t, s, 10)
}

// fileSource is a source with a position for each store.
type fileSource struct {
	dir   string
	lines int
	// fail is how often it cannot be opened.
	fail atomic.Int32
}

func (*fileSource) Name() string { return Pod }

func (f *fileSource) Open(store string) (Reader, error) {
	if f.fail.Add(-1) >= 0 {
		return nil, errors.New("no such folder")
	}
	p := OpenPositions[int](filepath.Join(f.dir, store+".json"), time.Now, func(string) {})
	at, _ := p.Get("file")
	return &fileReader{f, at, p}, nil
}

type fileReader struct {
	of *fileSource
	at int
	p  *Positions[int]
}

func (r *fileReader) Next(ctx context.Context) (Batch, error) {
	if r.at == r.of.lines {
		<-ctx.Done()
		return Batch{}, ctx.Err()
	}
	var b Batch
	for len(b.Entries) < 7 && r.at < r.of.lines {
		r.at++
		b.Entries = append(b.Entries, journalexport.Entry{field(CursorField, cursorOf(bootID, r.at)), field(TimeField, "1")})
	}
	b.Position = r.at
	return b, nil
}

func (r *fileReader) Done(b Batch) error { return r.p.Set("file", b.Position.(int)) }
func (r *fileReader) Close() error       { return r.p.Save() }

func TestAnotherSourceKeepsItsPlaceForEachStore(t *testing.T) {
	ca := authority(t)
	a, b := newStore(t, ca), newStore(t, ca)
	b.set(func(w http.ResponseWriter, _ []journalexport.Entry) bool {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return true
	})
	n := newNode(t, ca, a, b)
	files := &fileSource{dir: n.dir, lines: 100}
	n.sources = []Source{files}
	n.start()
	hasAll(t, a, 100)
	source, _ := a.entries[cursorOf(bootID, 1)].Get(SourceField)
	require.Equal(t, Pod, source)
	require.Eventually(t, func() bool {
		return n.counter("spore_logs_acknowledged_total", `{store="store-1",source="pod"}`) == 100
	}, 30*time.Second, time.Millisecond)
	n.end()
	b.set(nil)
	files.lines = 110
	n.start()
	hasAll(t, b, 110)
	hasAll(t, a, 110)
	for _, c := range a.cursors() {
		require.Equal(t, 1, a.count[c])
	}
}

// A store compares clocks by what a request says: the time at which it is written, and not that at which somebody
// begins to connect.
func TestTheTimeOfABatchIsThatAtWhichItIsWritten(t *testing.T) {
	ca := authority(t)
	n := newNode(t, ca, newStore(t, ca))
	clock := time.Now().Add(-2 * time.Minute) // The store of the tests refuses what is a minute off.
	u, err := newUpstream(n.config.Stores[0], n.config, ca.PEM(), func() time.Time { return clock })
	require.NoError(t, err)
	c := u.client.Transport.(*http.Transport).TLSClientConfig
	certificate := c.GetClientCertificate
	c.GetClientCertificate = func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		clock = time.Now() // So long it takes to connect.
		return certificate(r)
	}
	a, _, err := u.send(t.Context(), u.packed(journalexport.Append(nil, entryOf(1))))
	require.NoError(t, err)
	require.Equal(t, taken, a)
}
