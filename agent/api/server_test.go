package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/testca"
	"spore/wire/nodeapi"
)

var both = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// bench is a server of this node, n-1, with what tests ask it by.
type bench struct {
	t      *testing.T
	ca     *testca.CA
	at     string
	server *Server
	// shown is what the server shows; it may be replaced while it runs.
	shown atomic.Pointer[nodeapi.Identity]
	// now is the server's time, as an offset to the real one.
	now atomic.Int64
	// behind is whether that is known to be too early.
	behind atomic.Bool
}

func newBench(t *testing.T, rows ...Row) *bench {
	t.Helper()
	b := &bench{t: t, ca: authority(t, "agents")}
	id := b.issue("n-1", &x509.Certificate{Subject: pkix.Name{Organization: []string{"spore:nodes"}}})
	b.shown.Store(&id)
	b.server = &Server{
		Rows: rows, Say: func(s string) { t.Log(s) },
		Now:      func() time.Time { return time.Now().Add(time.Duration(b.now.Load())) },
		Behind:   b.behind.Load,
		Identity: func() (nodeapi.Identity, error) { return *b.shown.Load(), nil },
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b.at = l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.server.Serve(ctx, l) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-done) })
	return b
}

func authority(t *testing.T, name string) *testca.CA {
	t.Helper()
	ca, err := testca.New(name)
	require.NoError(t, err)
	return ca
}

func (b *bench) issue(name string, template *x509.Certificate) nodeapi.Identity {
	return issue(b.t, b.ca, b.ca, name, template)
}

// issue makes an identity whose certificate is by one authority, and which trusts another.
func issue(t *testing.T, by, trusts *testca.CA, name string, template *x509.Certificate) nodeapi.Identity {
	t.Helper()
	template.Subject.CommonName, template.DNSNames = name, []string{name}
	if template.ExtKeyUsage == nil {
		template.ExtKeyUsage = both
	}
	certificate, key, err := by.Issue(template)
	require.NoError(t, err)
	return nodeapi.Identity{Certificate: certificate, Key: key, Authorities: trusts.PEM()}
}

func (b *bench) client(id nodeapi.Identity) *nodeapi.Client {
	return &nodeapi.Client{Identity: func() (nodeapi.Identity, error) { return id, nil }, Addresses: func(string) ([]string, error) { return []string{b.at}, nil }}
}

func (b *bench) ask(id nodeapi.Identity, q nodeapi.Request) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	data, err := b.client(id).Read(ctx, "n-1", q, 1<<20)
	return string(data), err
}

// says is a row that answers who asked.
func says(method, path string, who ...nodeapi.Role) Row {
	return Row{Method: method, Path: path, Who: who, Handle: func(w http.ResponseWriter, _ *http.Request, c nodeapi.Caller) {
		fmt.Fprintf(w, "%s %v %v", c.Name, c.Roles, c.Ended)
	}}
}

func organizations(names ...string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{Organization: names}}
}

func ended(ago time.Duration, names ...string) *x509.Certificate {
	t := organizations(names...)
	t.NotAfter = time.Now().Add(-ago)
	return t
}

// A clock that could not be right, and was set to the last time that the node had seen, is days or years too early.
func TestByAClockThatIsTooEarlyPeopleGetInAndNobodyElse(t *testing.T) {
	b := newBench(t, says(http.MethodGet, "/look", append(nodeapi.Lookers(), nodeapi.Node)...))
	later := func(names ...string) nodeapi.Identity {
		c := organizations(names...)
		c.NotBefore = time.Now()
		return b.issue("anna", c)
	}
	other := organizations("spore:admin")
	other.NotBefore = time.Now()
	over, stolen := organizations("spore:admin"), organizations("spore:admin")
	over.NotBefore, over.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	stolen.NotBefore = time.Now()
	thief := b.issue("anna", stolen)
	gone := map[string]bool{serialOf(t, thief): true}
	b.server.Withdrawn = func() map[string]bool { return gone }
	look := nodeapi.Request{Method: http.MethodGet, Path: "/look"}
	b.now.Store(int64(-90 * 24 * time.Hour))
	for _, behind := range []bool{false, true} {
		b.behind.Store(behind)
		for name, tc := range map[string]struct {
			id  nodeapi.Identity
			let bool
		}{
			"an administrator":                    {later("spore:admin"), true},
			"a reader":                            {later("spore:reader"), true},
			"a node":                              {later("spore:nodes"), false},
			"a program that asks for metrics":     {later("spore:scraper"), false},
			"a reader and such a program in one":  {later("spore:reader", "spore:scraper"), false},
			"an administrator and a node in one":  {later("spore:admin", "spore:nodes"), false},
			"one whose certificate was withdrawn": {thief, false},
			"one whose certificate has ended since, which this clock cannot know": {b.issue("anna", over), true},
			"an administrator of another authority":                               {issue(t, authority(t, "agents"), b.ca, "anna", other), false},
		} {
			_, err := b.ask(tc.id, look)
			if behind && tc.let {
				require.NoError(t, err, name)
			} else {
				require.ErrorContains(t, err, "no answer: ", "%s, behind %v", name, behind)
			}
		}
	}
}

// With a clock that is months too early, a certificate would seem to have months to go.
func TestByAClockThatIsTooEarlyNobodyIsServedForLongerThanHisCertificateLives(t *testing.T) {
	b := newBench(t, Row{Method: http.MethodGet, Path: "/left", Who: nodeapi.Lookers(), Handle: func(w http.ResponseWriter, r *http.Request, _ nodeapi.Caller) {
		until, _ := r.Context().Deadline()
		fmt.Fprint(w, int(time.Until(until).Minutes()))
	}})
	c := organizations("spore:reader")
	c.NotBefore, c.NotAfter = time.Now(), time.Now().Add(time.Hour)
	id := b.issue("anna", c)
	b.now.Store(int64(-90 * 24 * time.Hour))
	b.behind.Store(true)
	left, err := b.ask(id, nodeapi.Request{Path: "/left"})
	require.NoError(t, err)
	require.Contains(t, []string{"58", "59", "60"}, left)
}

// The table is what the API promises: each kind of row against each kind of certificate.
func TestEachRowAnswersThoseWhoMayAndNobodyElse(t *testing.T) {
	renewal := says(http.MethodPost, "/renew", nodeapi.Node)
	renewal.Ended = true
	b := newBench(t,
		says(http.MethodGet, "/nodes", nodeapi.Node), says(http.MethodGet, "/look", nodeapi.Lookers()...), says(http.MethodPost, "/change", nodeapi.Admin), renewal)
	other := authority(t, "agents") // of the same name
	wrongUse := organizations("spore:admin")
	wrongUse.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	future := organizations("spore:admin")
	future.NotBefore = time.Now().Add(time.Hour)
	day := 24 * time.Hour
	const yes, no, tls = "yes", "is for certificates of", "no answer: "
	paths := []string{"GET /nodes", "GET /look", "POST /change", "POST /renew"}
	for _, tc := range []struct {
		who  string
		id   nodeapi.Identity
		want [4]string
	}{
		{"a node", b.issue("n-2", organizations("spore:nodes")), [4]string{yes, no, no, yes}},
		{"a reader", b.issue("anna", organizations("spore:reader")), [4]string{no, yes, no, no}},
		{"an administrator", b.issue("anna", organizations("spore:admin")), [4]string{no, yes, yes, no}},
		{"one of another organization", b.issue("n-2", organizations("system:masters")), [4]string{"neither that of a node", "neither that of a node", "neither that of a node", "neither that of a node"}},
		{"one of none, with the name of a node", b.issue("n-1", organizations()), [4]string{"neither", "neither", "neither", "neither"}},
		{"an administrator of another authority", issue(t, other, b.ca, "anna", organizations("spore:admin")), [4]string{tls, tls, tls, tls}},
		{"a node of another authority", issue(t, other, b.ca, "n-2", organizations("spore:nodes")), [4]string{tls, tls, tls, tls}},
		{"an administrator whose time is over", b.issue("anna", ended(time.Minute, "spore:admin")), [4]string{tls, tls, tls, tls}},
		{"a reader whose time is over", b.issue("anna", ended(time.Minute, "spore:reader")), [4]string{tls, tls, tls, tls}},
		{"an administrator whose time has not come", b.issue("anna", future), [4]string{tls, tls, tls, tls}},
		{"a certificate that is for servers alone", b.issue("anna", wrongUse), [4]string{tls, tls, tls, tls}},
		{"a node that was off for long", b.issue("n-2", ended(300*day, "spore:nodes")), [4]string{"has ended at", no, no, yes}},
		{"a node that was off for too long", b.issue("n-2", ended(400*day, "spore:nodes")), [4]string{tls, tls, tls, tls}},
		{"an old node of another authority", issue(t, other, b.ca, "n-2", ended(day, "spore:nodes")), [4]string{tls, tls, tls, tls}},
	} {
		t.Run(tc.who, func(t *testing.T) {
			for i, path := range paths {
				method, path, _ := strings.Cut(path, " ")
				text, err := b.ask(tc.id, nodeapi.Request{Method: method, Path: path})
				if tc.want[i] == yes {
					require.NoError(t, err, path)
					require.Contains(t, text, "[spore:", path)
					continue
				}
				require.ErrorContains(t, err, tc.want[i], path)
				require.Empty(t, text)
			}
		})
	}
	t.Run("nobody", func(t *testing.T) {
		for name, config := range map[string]*clientConfig{
			"without certificate": {RootCAs: b.ca.Pool(), ServerName: "n-1"},
			"by TLS 1.2":          {RootCAs: b.ca.Pool(), ServerName: "n-1", MaxVersion: 0x0303},
		} {
			client := http.Client{Transport: &http.Transport{TLSClientConfig: config}}
			for _, path := range paths {
				_, path, _ = strings.Cut(path, " ")
				res, err := client.Get("https://" + b.at + path)
				require.Error(t, err, "%s: %s", name, path)
				require.Nil(t, res)
			}
		}
		res, err := http.Get("http://" + b.at + "/look")
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, http.StatusBadRequest, res.StatusCode, "plain HTTP")
	})
}

// clientConfig is tls.Config where tls is a word of the table above.
type clientConfig = tls.Config

func TestTheCallerIsWhoTheCertificateSays(t *testing.T) {
	renewal := says(http.MethodPost, "/renew", nodeapi.Node)
	renewal.Ended = true
	b := newBench(t, says(http.MethodGet, "/x", nodeapi.Node, nodeapi.Admin), renewal)
	text, err := b.ask(b.issue("n-2", organizations("spore:nodes", "other")), nodeapi.Request{Path: "/x"})
	require.NoError(t, err)
	require.Equal(t, "n-2 [spore:nodes] false", text)
	text, err = b.ask(b.issue("n-2", ended(time.Hour, "spore:nodes")), nodeapi.Request{Method: "POST", Path: "/renew"})
	require.NoError(t, err)
	require.Equal(t, "n-2 [spore:nodes] true", text)
}

func TestAServerIsAskedByItsName(t *testing.T) {
	b := newBench(t, says(http.MethodGet, "/x", nodeapi.Node))
	id := b.issue("n-2", organizations("spore:nodes"))
	_, err := b.client(id).Read(context.Background(), "n-3", nodeapi.Request{Path: "/x"}, 100)
	require.ErrorContains(t, err, "certificate is valid for n-1, not n-3")

	for name, tc := range map[string]struct {
		shown   nodeapi.Identity
		problem string
	}{
		"an operator's":               {issue(t, b.ca, b.ca, "n-1", organizations("spore:admin")), `the certificate belongs to "n-1"`},
		"another node's with my name": {namedAs(t, b.ca, "n-3", "n-1"), `the certificate belongs to "n-3"`},
		"of another authority":        {issue(t, authority(t, "agents"), b.ca, "n-1", organizations("spore:nodes")), "x509: certificate signed by unknown authority"},
		"one that has ended":          {b.issue("n-1", ended(time.Hour, "spore:nodes")), "certificate has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			b.shown.Store(&tc.shown)
			_, err := b.ask(id, nodeapi.Request{Path: "/x"})
			require.ErrorContains(t, err, tc.problem)
		})
	}
}

// namedAs makes a node's certificate that holds for another name as well.
func namedAs(t *testing.T, ca *testca.CA, node, other string) nodeapi.Identity {
	t.Helper()
	template := organizations("spore:nodes")
	template.Subject.CommonName, template.DNSNames, template.ExtKeyUsage = node, []string{node, other}, both
	certificate, key, err := ca.Issue(template)
	require.NoError(t, err)
	return nodeapi.Identity{Certificate: certificate, Key: key, Authorities: ca.PEM()}
}

func TestARenewedCertificateIsShownWithoutARestart(t *testing.T) {
	b := newBench(t, says(http.MethodGet, "/x", nodeapi.Node))
	serial := func() string {
		conn, err := tls.Dial("tcp", b.at, &tls.Config{RootCAs: b.ca.Pool(), ServerName: "n-1", Certificates: []tls.Certificate{pair(t, b.issue("n-2", organizations("spore:nodes")))}})
		require.NoError(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	require.Equal(t, before, serial())
	fresh := b.issue("n-1", organizations("spore:nodes"))
	b.shown.Store(&fresh)
	require.NotEqual(t, before, serial())
	want, err := x509.ParseCertificate(pair(t, fresh).Certificate[0])
	require.NoError(t, err)
	require.Equal(t, want.SerialNumber.String(), serial())

	// Authorities, too, are those of now: with a new one, callers of the old one are refused.
	rotated := authority(t, "agents 2")
	fresh.Authorities = rotated.PEM()
	b.shown.Store(&fresh)
	_, err = b.ask(b.issue("n-2", organizations("spore:nodes")), nodeapi.Request{Path: "/x"})
	require.ErrorContains(t, err, "no answer")
	_, err = b.ask(issue(t, rotated, b.ca, "n-2", organizations("spore:nodes")), nodeapi.Request{Path: "/x"})
	require.NoError(t, err)
}

func pair(t *testing.T, id nodeapi.Identity) tls.Certificate {
	t.Helper()
	p, err := tls.X509KeyPair(id.Certificate, id.Key)
	require.NoError(t, err)
	return p
}

func TestAConnectionDoesNotOutliveItsCertificate(t *testing.T) {
	b := newBench(t, says(http.MethodGet, "/x", nodeapi.Admin))
	template := organizations("spore:admin")
	template.NotAfter = time.Now().Add(time.Hour)
	id := b.issue("anna", template)
	var shown atomic.Pointer[tls.Certificate]
	show := func(id nodeapi.Identity) { p := pair(t, id); shown.Store(&p) }
	show(id)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: b.ca.Pool(), ServerName: "n-1",
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown.Load(), nil },
	}}}
	get := func() int {
		res, err := client.Get("https://" + b.at + "/x")
		require.NoError(t, err)
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		return res.StatusCode
	}
	require.Equal(t, http.StatusOK, get())
	b.now.Store(int64(2 * time.Hour))
	renewed := organizations("spore:admin")
	renewed.NotAfter = time.Now().Add(4 * time.Hour)
	show(b.issue("anna", renewed))
	require.Equal(t, http.StatusForbidden, get(), "the same connection")
	require.Equal(t, http.StatusOK, get(), "it was closed, and the next begins with the certificate of now")
}

func TestARequestsContextEndsWithTheCertificate(t *testing.T) {
	t.Parallel()
	waits := says(http.MethodGet, "/x", nodeapi.Admin)
	over := make(chan error, 1)
	waits.Handle = func(_ http.ResponseWriter, r *http.Request, _ nodeapi.Caller) {
		<-r.Context().Done()
		over <- r.Context().Err()
	}
	b := newBench(t, waits)
	template := organizations("spore:admin")
	template.NotAfter = time.Now().Add(3 * time.Second)
	id := b.issue("anna", template)
	go func() { _, _ = b.ask(id, nodeapi.Request{Path: "/x"}) }()
	select {
	case err := <-over:
		require.ErrorIs(t, err, context.DeadlineExceeded)
	case <-time.After(15 * time.Second):
		require.FailNow(t, "a follower would go on for ever")
	}
}

func TestRequestsAreBounded(t *testing.T) {
	reads := says(http.MethodPost, "/small", nodeapi.Admin)
	reads.Body = 10
	reads.Handle = func(w http.ResponseWriter, r *http.Request, _ nodeapi.Caller) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		fmt.Fprintf(w, "%d bytes", len(data))
	}
	none := reads
	none.Path, none.Body = "/none", 0
	refuses := says(http.MethodGet, "/refuses", nodeapi.Admin)
	refuses.May = func(c nodeapi.Caller) error { return errors.New("not to " + c.Name) }
	b := newBench(t, reads, none, refuses)
	id := b.issue("anna", organizations("spore:admin"))
	for name, tc := range map[string]struct {
		q    nodeapi.Request
		want string
	}{
		"what fits":             {nodeapi.Request{Method: "POST", Path: "/small", Body: strings.NewReader("0123456789")}, "10 bytes"},
		"too much":              {nodeapi.Request{Method: "POST", Path: "/small", Body: strings.NewReader("0123456789a")}, "it answers 413"},
		"something for nothing": {nodeapi.Request{Method: "POST", Path: "/none", Body: strings.NewReader("0")}, "it answers 413"},
		"nothing":               {nodeapi.Request{Method: "POST", Path: "/none"}, "0 bytes"},
		"a long header":         {nodeapi.Request{Method: "POST", Path: "/none", Header: http.Header{"X": {strings.Repeat("x", 64<<10)}}}, "it answers 431"},
		"another method":        {nodeapi.Request{Method: "DELETE", Path: "/none"}, "it answers 405"},
		"another path":          {nodeapi.Request{Path: "/other"}, "it answers 404"},
		"a path that climbs":    {nodeapi.Request{Path: "/none/../../etc/passwd"}, "it answers 307"},
		"a closer look":         {nodeapi.Request{Path: "/refuses"}, `it answers 403: "not to anna"`},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := b.ask(id, tc.q)
			if err != nil {
				text = err.Error()
			}
			require.Contains(t, text, tc.want)
		})
	}
}

func TestTooManyAtOnceAreToldToComeAgain(t *testing.T) {
	inside, leave := make(chan bool), make(chan bool)
	row := says(http.MethodGet, "/x", nodeapi.Admin)
	row.AtOnce = 2
	row.Handle = func(http.ResponseWriter, *http.Request, nodeapi.Caller) { inside <- true; <-leave }
	b := newBench(t, row, says(http.MethodGet, "/other", nodeapi.Admin))
	id := b.issue("anna", organizations("spore:admin"))
	done := make(chan error, 2)
	for range 2 {
		go func() { _, err := b.ask(id, nodeapi.Request{Path: "/x"}); done <- err }()
		<-inside
	}
	_, err := b.ask(id, nodeapi.Request{Path: "/x"})
	require.ErrorContains(t, err, "it answers 503")
	_, err = b.ask(id, nodeapi.Request{Path: "/other"})
	require.NoError(t, err, "other rows have room of their own")
	close(leave)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

func TestASlowAskerIsCutOff(t *testing.T) {
	t.Parallel()
	row := says(http.MethodPost, "/x", nodeapi.Admin)
	row.Body, row.Bound = 10, time.Second
	failed := make(chan error, 1)
	row.Handle = func(_ http.ResponseWriter, r *http.Request, _ nodeapi.Caller) {
		_, err := io.ReadAll(r.Body)
		failed <- err
	}
	b := newBench(t, row)
	body, stuck := io.Pipe()
	defer stuck.Close()
	go func() {
		_, _ = b.ask(b.issue("anna", organizations("spore:admin")), nodeapi.Request{Method: "POST", Path: "/x", Body: body})
	}()
	select {
	case err := <-failed:
		require.ErrorContains(t, err, "timeout")
	case <-time.After(15 * time.Second):
		require.FailNow(t, "whoever sends nothing holds the row for ever")
	}
}

// A line that breaks without a word, in the middle of a push, does not keep the others out for as long as a push may
// take.
func TestABodyThatStopsGivesItsRoomToOthers(t *testing.T) {
	t.Parallel()
	row := says(http.MethodPost, "/x", nodeapi.Admin)
	row.Body, row.Bound, row.Stall, row.AtOnce = 100, time.Hour, 2*time.Second, 1
	read := make(chan error, 1)
	row.Handle = func(w http.ResponseWriter, r *http.Request, _ nodeapi.Caller) {
		_, err := io.ReadAll(r.Body)
		read <- err
		time.Sleep(3 * time.Second) // The answer may take longer than that.
		if r.Context().Err() == nil {
			fmt.Fprint(w, "taken")
		}
	}
	b := newBench(t, row)
	id := b.issue("anna", organizations("spore:admin"))
	ask := func(body io.Reader) (string, error) {
		return b.ask(id, nodeapi.Request{Method: "POST", Path: "/x", Body: body})
	}
	body, stuck := io.Pipe()
	defer stuck.Close()
	go func() { _, _ = ask(body) }()
	_, err := stuck.Write([]byte("x"))
	require.NoError(t, err)
	select {
	case err := <-read:
		require.ErrorContains(t, err, "timeout")
	case <-time.After(time.Minute):
		require.FailNow(t, "whoever sends nothing holds the row for ever")
	}

	slowly := func() io.Reader {
		slow, writes := io.Pipe()
		go func() {
			defer writes.Close()
			for range 6 {
				time.Sleep(500 * time.Millisecond)
				_, _ = writes.Write([]byte("x"))
			}
		}()
		return slow
	}
	var text string
	require.Eventually(t, func() bool {
		text, err = ask(slowly())
		return err == nil || !strings.Contains(err.Error(), "503")
	}, 40*time.Second, 100*time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, <-read, "what comes slowly is taken")
	require.Equal(t, "taken", text)
}

func TestAServerWithoutCertificateDoesNotStart(t *testing.T) {
	s := &Server{Identity: func() (nodeapi.Identity, error) { return nodeapi.Identity{}, nil }, Now: time.Now}
	require.ErrorContains(t, s.Serve(context.Background(), nil), "has no certificate")
	s.Identity = func() (nodeapi.Identity, error) { return nodeapi.Identity{Authorities: authority(t, "x").PEM()}, nil }
	require.ErrorContains(t, s.Serve(context.Background(), nil), "own certificate")
	s.Identity = func() (nodeapi.Identity, error) { return nodeapi.Identity{}, errors.New("no such file") }
	require.ErrorContains(t, s.Serve(context.Background(), nil), "no such file")
}

func TestWhoAsksForWhatIsTracedIsALine(t *testing.T) {
	push := says(http.MethodPost, "/push", nodeapi.Admin)
	push.Traced, push.Body = true, 10
	logs := says(http.MethodGet, "/logs", nodeapi.Lookers()...)
	logs.Traced = true
	logs.May = func(c nodeapi.Caller) error {
		if c.Name == "bert" {
			return errors.New("not to bert")
		}
		return nil
	}
	b := newBench(t, push, logs, says(http.MethodGet, "/status", nodeapi.Lookers()...))
	lines := make(chan string, 10)
	b.server.Say = func(s string) { lines <- s }
	admin, reader := b.issue("anna", organizations("spore:admin")), b.issue("b\"\x1b[2J", organizations("spore:reader"))
	for _, tt := range []struct {
		id     nodeapi.Identity
		method string
		path   string
		query  url.Values
		want   string
	}{
		{admin, "POST", "/push", url.Values{"reboot": {"true"}}, `^"anna" \(spore:admin\) at 127\.0\.0\.1:\d+ asks POST "/push\?reboot=true"$`},
		{reader, "POST", "/push", nil, `^"b\\"\\x1b\[2J" \(spore:reader\) at \S+ asks POST "/push", which is refused: POST /push is for certificates of spore:admin$`},
		{reader, "GET", "/logs", url.Values{"unit": {"kafka"}}, `^"b\\"\\x1b\[2J" \(spore:reader\) at \S+ asks GET "/logs\?unit=kafka"$`},
		{b.issue("bert", organizations("spore:admin")), "GET", "/logs", nil, `^"bert" .* asks GET "/logs", which is refused: not to bert$`},
		{b.issue("n-2", organizations("spore:nodes")), "GET", "/logs", nil, `^"n-2" \(spore:nodes\) at .*, which is refused: `},
		{admin, "GET", "/status", nil, ""},
	} {
		_, _ = b.ask(tt.id, nodeapi.Request{Method: tt.method, Path: tt.path, Query: tt.query})
		select {
		case line := <-lines:
			require.NotEmpty(t, tt.want, line)
			require.Regexp(t, tt.want, line)
		default:
			require.Empty(t, tt.want)
		}
	}
}
