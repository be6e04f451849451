package logs

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/fleet"
	"spore/test/testca"
	"spore/wire/nodeapi"
)

// said is an entry of a node at so many seconds.
func said(node string, at int64, message string) line {
	raw := fmt.Appendf(nil, `{"MESSAGE":%q}`, message)
	if at != 0 {
		raw = fmt.Appendf(nil, `{"__REALTIME_TIMESTAMP":"%d","MESSAGE":%q}`, at*1e6, message)
	}
	e, err := nodeapi.ParseEntry(raw)
	if err != nil {
		panic(err)
	}
	return line{node, e, raw}
}

func TestLinesOfNodesAreMergedByTimeAndEachNodesOrderStays(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := newSpool([]Ask{{node: "a", Logs: nodeapi.Logs{Lines: 4}}, {node: "b", Logs: nodeapi.Logs{Lines: 4}}, {node: "silent"}}, maxKept)
	require.NoError(t, err)
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left, "whatever ends the command, nothing is left")
	for _, l := range []line{said("a", 10, "a1"), said("a", 5, "a2: its clock was set back"), said("a", 0, "a3: without a time"), said("a", 30, "a4")} {
		require.NoError(t, s.files[0].add(l))
	}
	for _, l := range []line{said("b", 7, "b1"), said("b", 10, "b2"), said("b", 11, "b3"), said("b", 40, "b4")} {
		require.NoError(t, s.files[1].add(l))
	}
	var got []string
	require.NoError(t, s.merge(func(l line) error { got = append(got, l.node+" "+l.entry.Message[:2]); return nil }))
	require.Equal(t, []string{"b b1", "a a1", "a a2", "a a3", "b b2", "b b3", "a a4", "b b4"}, got)
	s.close()
}

func TestOfANodeThatHasNoEndLittleIsKept(t *testing.T) {
	s, err := newSpool([]Ask{{node: "a", Logs: nodeapi.Logs{Lines: 2}}, {node: "b", Logs: nodeapi.Logs{Lines: nodeapi.MaxLines}}}, maxKept)
	require.NoError(t, err)
	defer s.close()
	for i := range 3 {
		require.NoError(t, s.files[0].add(said("a", 1, "x")), "line %d; the last may say that there are others", i)
	}
	require.ErrorContains(t, s.files[0].add(said("a", 1, "x")), "it sends more than the 2 lines that it was asked for")
	require.Equal(t, 3, s.files[0].lines)

	long := line{node: "b", raw: bytes.Repeat([]byte(" "), nodeapi.MaxEntry)}
	for range maxKept>>20 - 1 {
		require.NoError(t, s.files[1].add(long))
	}
	require.ErrorContains(t, s.files[1].add(long), "more than 64 MiB; ask for fewer --lines, or a shorter time")
}

func TestAPageKeepsLessThanACommand(t *testing.T) {
	command, page := session{}, session{share: 100}
	require.EqualValues(t, maxKept, command.room(200))
	require.EqualValues(t, maxKept, page.room(1))
	require.LessOrEqual(t, 200*page.room(200), int64(maxPage))
	require.GreaterOrEqual(t, page.room(1000), int64(1<<20))
}

func TestAMachineThatCannotKeepAnswersSaysSo(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	_, err := newSpool([]Ask{{node: "a"}}, maxKept)
	require.ErrorIs(t, err, errSpool)
	require.ErrorContains(t, err, "set TMPDIR to a folder with more room")
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	require.NoError(t, err)
	s := &spool{files: []*spoolFile{{node: "a", f: full, w: bufio.NewWriter(full), most: 9, room: maxKept}}}
	defer s.close()
	require.NoError(t, s.files[0].add(said("a", 1, "x")))
	require.ErrorIs(t, s.merge(func(line) error { return nil }), errSpool)
	require.ErrorIs(t, s.files[0].add(line{raw: make([]byte, 1<<16)}), errSpool)
}

func TestFollowedLinesWaitForEarlierOnes(t *testing.T) {
	now := time.Unix(1000, 0)
	s := sorter{settle: time.Second}
	s.add(said("a", 100, "second"), now)
	s.add(said("b", 99, "first"), now.Add(500*time.Millisecond))
	s.add(said("b", 90, "third: behind what its node said before"), now.Add(600*time.Millisecond))
	require.Empty(t, s.due(now.Add(900*time.Millisecond)))
	text := func(lines []line) (out []string) {
		for _, l := range lines {
			out = append(out, l.entry.Message)
		}
		return out
	}
	require.Equal(t, []string{"first", "third: behind what its node said before", "second"}, text(s.due(now.Add(time.Second))))
	require.Empty(t, s.rest())

	for i := range maxWaiting + 5 {
		s.add(said("a", int64(200+i), fmt.Sprint(i)), now)
	}
	require.Len(t, s.due(now), 5, "a flood is not kept")
	require.Len(t, s.rest(), maxWaiting)

	long := said("a", 300, "long")
	long.raw = make([]byte, nodeapi.MaxEntry)
	for !s.full() {
		s.add(long, now)
	}
	require.Len(t, s.waiting, 2*maxWaitingSize>>20+1)
	require.Len(t, s.due(now), maxWaitingSize>>20+1)
	require.False(t, s.full())
	require.Len(t, s.rest(), maxWaitingSize>>20)
	require.Zero(t, s.size)
}

func TestATimeThatIsYetToComeIsNotBelieved(t *testing.T) {
	now := time.Unix(1000, 0)
	s := sorter{settle: time.Second}
	s.add(said("a", 253_370_764_800, "from the year 9999"), now)
	s.add(said("b", 1000, "after it"), now.Add(time.Millisecond))
	require.Equal(t, "from the year 9999", s.rest()[0].entry.Message)

	var p place
	require.True(t, p.pass(said("a", 253_370_764_800, "from the year 9999"), now))
	require.Zero(t, p.at, "its clock may be set right until it is asked again")
	require.True(t, p.pass(said("a", -5, "from before 1970"), now))
	require.Zero(t, p.at)
}

func TestLinesOfTheSameTimeAreAskedForAgainAndShownOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	var p place
	require.True(t, p.pass(said("a", 10, "one"), now))
	require.True(t, p.pass(said("a", 10, "two"), now))
	// The node goes here, and is asked for all since then.
	require.Equal(t, time.Unix(10, 0), p.at)
	require.False(t, p.pass(said("a", 10, "one"), now))
	require.False(t, p.pass(said("a", 10, "two"), now))
	require.True(t, p.pass(said("a", 10, "three, of the same write"), now))
	require.True(t, p.pass(said("a", 11, "one"), now))

	// A program may say the same twice at the same time; the fields of an entry have no order.
	cursor := func(text string) line {
		e, err := nodeapi.ParseEntry([]byte(text))
		require.NoError(t, err)
		return line{"a", e, []byte(text)}
	}
	require.True(t, p.pass(cursor(`{"__CURSOR":"i=1","__REALTIME_TIMESTAMP":"12000000","MESSAGE":"x"}`), now))
	require.True(t, p.pass(cursor(`{"__CURSOR":"i=2","__REALTIME_TIMESTAMP":"12000000","MESSAGE":"x"}`), now))
	require.False(t, p.pass(cursor(`{"MESSAGE":"x","__REALTIME_TIMESTAMP":"12000000","__CURSOR":"i=1"}`), now))
}

func TestANodeDoesNotSayThatItIsAnother(t *testing.T) {
	data, err := labelled([]byte(`{"MESSAGE":"x","node":"master-01","cluster":"other","_PID":"1"}`), "plant", "edge-01")
	require.NoError(t, err)
	require.Equal(t, `{"MESSAGE":"x","_PID":"1","cluster":"plant","node":"edge-01"}`, string(data))
	var e map[string]string
	require.NoError(t, json.Unmarshal(data, &e))
}

// Whatever form lines have, no field of an entry can command a terminal, or turn the direction of a line.
func TestLinesCannotCommandATerminal(t *testing.T) {
	const bad = "\u009b2J\u202e\x7f"
	raw := `{"__REALTIME_TIMESTAMP":"1000000","MESSAGE":"m` + bad + `\u001b]0;x\u0007","SYSLOG_IDENTIFIER":"i` + bad + `","_PID":"` + bad +
		`","_SYSTEMD_UNIT":"u` + bad + `","` + bad + `":"x"}`
	e, err := nodeapi.ParseEntry([]byte(raw))
	require.NoError(t, err)
	for name, p := range map[string]*printer{
		"one node": {}, "several": {width: 7, cluster: "plant"}, "JSON": {asJSON: true},
		"JSON of several": {asJSON: true, width: 7, cluster: "plant"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p.out = bufio.NewWriter(&out)
			require.NoError(t, p.print(line{"edge-01", e, []byte(raw)}))
			require.NoError(t, p.out.Flush())
			text := strings.TrimSuffix(out.String(), "\n")
			require.Equal(t, nodeapi.Harmless(text), text)
			require.Contains(t, text, `\u202e`)
			if p.asJSON {
				var fields, before map[string]string
				require.NoError(t, json.Unmarshal([]byte(text), &fields))
				require.NoError(t, json.Unmarshal([]byte(raw), &before))
				for name, value := range before {
					require.Equal(t, value, fields[name], "it is the same value")
				}
			}
		})
	}
}

// gone is a command that asks nodes that are off, with a certificate that ends.
func gone(t *testing.T, ends time.Time, said io.Writer, nodes ...string) *session {
	t.Helper()
	ca, err := testca.New("agents")
	require.NoError(t, err)
	certificate, key, err := ca.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "anna"}, NotAfter: ends})
	require.NoError(t, err)
	c := &fleet.Cluster{Timeout: time.Minute, Client: nodeapi.Client{
		Identity: func() (nodeapi.Identity, error) {
			return nodeapi.Identity{Certificate: certificate, Key: key, Authorities: ca.PEM()}, nil
		},
		Addresses: func(string) ([]string, error) { return []string{"192.0.2.1"}, nil },
		Dial:      func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("it is off") },
	}}
	s := &session{Cluster: c, printer: &printer{out: bufio.NewWriter(io.Discard), said: said}}
	for _, n := range nodes {
		s.asks = append(s.asks, Ask{node: n, Logs: nodeapi.Logs{Follow: true}})
	}
	return s
}

func TestWhoFollowsIsToldWhenTheCertificateEnds(t *testing.T) {
	var said bytes.Buffer
	s := gone(t, time.Now().Add(2*time.Second), &said, "a", "b")
	err := s.follow(t.Context())
	require.ErrorIs(t, err, errEnded)
	require.ErrorContains(t, err, "call the command again")
	require.Equal(t, 1, strings.Count(said.String(), "a: no answer: it is off; it is asked again\n"))
}

func TestANodeThatStaysAwayIsSaidOnce(t *testing.T) {
	var said bytes.Buffer
	s := gone(t, time.Now().Add(time.Hour), &said, "a", "b")
	ctx, cancel := context.WithTimeout(t.Context(), again+2*time.Second)
	defer cancel()
	require.NoError(t, s.follow(ctx), "that is how it ends")
	require.Equal(t, 1, strings.Count(said.String(), "a: "), said.String())
}

func TestAnInterruptEndsAListInTheMiddle(t *testing.T) {
	s, err := newSpool([]Ask{{node: "a", Logs: nodeapi.Logs{Lines: 9}}}, maxKept)
	require.NoError(t, err)
	defer s.close()
	require.NoError(t, s.files[0].add(said("a", 1, "x")))
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	p := session{printer: &printer{out: bufio.NewWriter(io.Discard)}}
	require.ErrorIs(t, s.merge(p.until(ctx)), context.Canceled)
}

func TestAFullDiskEndsTheCommandAndIsNoNodesFault(t *testing.T) {
	s := gone(t, time.Now().Add(time.Hour), io.Discard, "a")
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, s.all(t.Context()), errSpool)
}

func TestANodeThatSendsWithoutAnEndHoldsNobodyUp(t *testing.T) {
	ca, err := testca.New("agents")
	require.NoError(t, err)
	certificate, key, err := ca.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "anna"}})
	require.NoError(t, err)
	honest := `{"__REALTIME_TIMESTAMP":"5000000","MESSAGE":"honest"}` + "\n"
	at := map[string][]string{
		"endless": serve(t, ca, "endless", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(`{"__REALTIME_TIMESTAMP":"253370764800000000","MESSAGE":"x","node":"honest"}` + "\n"))
			}
		}),
		"cut": serve(t, ca, "cut", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(honest))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}),
		"honest": serve(t, ca, "honest", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(honest)) }),
	}
	c := &fleet.Cluster{Timeout: time.Minute, Client: nodeapi.Client{
		Identity: func() (nodeapi.Identity, error) {
			return nodeapi.Identity{Certificate: certificate, Key: key, Authorities: ca.PEM()}, nil
		},
		Addresses: func(node string) ([]string, error) { return at[node], nil },
	}}
	var out, errs bytes.Buffer
	s := &session{Cluster: c, printer: &printer{out: bufio.NewWriter(&out), said: &errs, width: 7, asJSON: true, cluster: "plant"}}
	for _, n := range []string{"endless", "cut", "honest"} {
		s.asks = append(s.asks, Ask{node: n, Logs: nodeapi.Logs{Lines: 3}})
	}
	require.ErrorContains(t, s.all(t.Context()), "2 of 3 nodes did not answer, or not to the end")
	require.NoError(t, s.out.Flush())
	require.Contains(t, errs.String(), "endless: it sends more than the 3 lines that it was asked for\n")
	require.Contains(t, errs.String(), "cut: ")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 1+1+4)
	require.Contains(t, lines[0], `"node":"cut"`)
	require.Contains(t, lines[1], `"MESSAGE":"honest"`)
	require.Contains(t, lines[1], `"node":"honest"`)
	for _, l := range lines[2:] {
		require.Contains(t, l, `"node":"endless"`)
	}
}

// serve is a node that answers every question.
func serve(t *testing.T, ca *testca.CA, node string, answer http.HandlerFunc) []string {
	t.Helper()
	certificate, key, err := ca.Issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: node, Organization: []string{string(nodeapi.Node)}}, DNSNames: []string{node},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(answer)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return []string{s.Listener.Addr().String()}
}
