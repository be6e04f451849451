// Package gate lets people into the pages that a node serves, by the certificates with which they ask nodes, too: of
// the same authority, with the same roles, and as long as they hold and are not withdrawn. It looks at certificates in
// HTTP, so that whoever is not let in gets a page that says why, and what to do.
package gate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"spore/dashboard"
	"spore/wire/nodeapi"
)

const (
	// headerBound is for the header of a request, idleBound for a connection on which nothing is asked, and writeBound for
	// an answer: a search may take 100 seconds. What goes on for longer moves the deadline by itself.
	headerBound, idleBound, writeBound = 10 * time.Second, time.Minute, 3 * time.Minute
	// bodyBound is for what a request brings besides its header, which nobody reads.
	bodyBound = time.Second
	// maxHeader is in bytes.
	maxHeader = 16 << 10
	// looks is how often the list of withdrawn certificates is read. last is the time for telling somebody whose
	// certificate has lost its right.
	looks, last = time.Second, 3 * time.Second
)

// Options say who is let in.
type Options struct {
	// Cluster is the name of the cluster, for people.
	Cluster string
	// Identity reads what browsers are shown, and whose certificates are taken. It is called for each connection.
	Identity func() (nodeapi.Identity, error)
	// Withdrawn returns the serial numbers of certificates that are refused. It is called often.
	Withdrawn func() map[string]bool
	// Now is time.Now but in tests, and Behind tells whether the clock is known to be too early (nodeapi.Clock).
	Now    func() time.Time
	Behind func() bool
	// Say is told who opens which page, and what goes wrong.
	Say func(string)
}

// gate stands before the pages.
type gate struct {
	Options
	pages http.Handler
}

// Serve lets people in at a listener until ctx is over.
func Serve(ctx context.Context, l net.Listener, o Options, pages http.Handler) error {
	if _, err := o.config(); err != nil { // Rather than to answer nobody.
		return errors.Join(err, l.Close())
	}
	greeting := &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		config, err := o.config()
		if err != nil {
			o.Say(err.Error())
		}
		return config, err
	}}
	// There is no bound for reading a whole request (ReadTimeout): behind one the server reads on, to see whether the browser
	// is still there, and pages stay open.
	s := &http.Server{
		Handler: &gate{o, pages}, ReadHeaderTimeout: headerBound, WriteTimeout: writeBound,
		IdleTimeout: idleBound, MaxHeaderBytes: maxHeader,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, seatKey{}, c.(*tls.Conn).NetConn())
		},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		// What goes wrong on a connection is told to whoever has it; here it would fill the journal.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	err := s.Serve(tls.NewListener(newRoom(l), greeting))
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the pages: %w", err)
}

func (o Options) config() (*tls.Config, error) {
	id, err := o.Identity()
	if err != nil {
		return nil, err
	}
	return id.PageConfig()
}

// refusal is why somebody is not let in, for people.
type refusal struct {
	title, text string
	do          []string
}

// anew is how a browser asks for a certificate again: it remembers which one it has shown.
const anew = "close all windows of this browser, and open the page again"

// ServeHTTP answers a browser.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'") // A page says by itself what it needs.
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	if r.ContentLength != 0 {
		// The server reads what nobody has read before it goes on, for as long as that takes to come: the seat would be taken
		// for good.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyBound))
		header.Set("Connection", "close")
		refusal{title: "This page takes nothing", text: "It is for reading. Nothing was changed.", do: []string{"open its address without a form"}}.
			write(w, http.StatusRequestEntityTooLarge)
		return
	}
	who, no := g.caller(r)
	switch {
	case no != nil:
		header.Set("Connection", "close") // With another certificate the browser has to begin anew.
		no.write(w, http.StatusForbidden)
		return
	case foreign(r):
		refusal{title: "Another page asks for it", text: "Nothing was shown.", do: []string{"open the address of this page yourself"}}.
			write(w, http.StatusForbidden)
		return
	}
	if s, ok := r.Context().Value(seatKey{}).(*seat); ok {
		s.take()
	}
	if r.URL.Path != "/events" && !strings.HasPrefix(r.URL.Path, "/static/") {
		// The nodes know only that this one asks.
		g.Say(fmt.Sprintf("%.64q (%s) at %s asks %s %.256q", who.Name, roleOf(who), r.RemoteAddr, r.Method, r.URL.RequestURI()))
	}
	ctx, end := context.WithCancel(r.Context())
	defer end()
	over := make(chan struct{})
	guest := &dashboard.Guest{Name: who.Name, Role: roleOf(who), Ends: who.Ends, Over: over, Why: func() (string, string, []string) {
		no := g.over(who, r.TLS.PeerCertificates)
		if no == nil { // The clock was set back meanwhile.
			no = expired(who)
		}
		return no.title, no.text, no.do
	}}
	go g.watch(ctx, who, r.TLS.PeerCertificates, over, end)
	g.pages.ServeHTTP(w, r.WithContext(dashboard.WithGuest(ctx, guest)))
}

// watch closes over when a certificate holds no longer, and ends the request a little later.
func (g *gate) watch(ctx context.Context, who nodeapi.Caller, chain []*x509.Certificate, over chan<- struct{}, end func()) {
	beat := time.NewTicker(looks)
	defer beat.Stop()
	// However early the clock is (nodeapi.Clock), nobody looks for longer than the certificate lives.
	for begun, life := time.Now(), who.Ends.Sub(who.Begins); g.over(who, chain) == nil && time.Since(begun) < life; {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
	}
	close(over)
	grace := time.NewTimer(last)
	defer grace.Stop()
	select {
	case <-ctx.Done():
	case <-grace.C:
		end()
	}
}

// caller is who asks, or why nobody is let in.
func (g *gate) caller(r *http.Request) (nodeapi.Caller, *refusal) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nodeapi.Caller{}, &refusal{
			title: "This browser has shown no certificate",
			// Chromium offers those of the authorities that the node names (tls.Config.ClientCAs), and of these those that hold.
			text: "The pages of " + g.Cluster + " are for people with a certificate of the cluster. A browser may offer neither one that " +
				"has ended nor one of another cluster.",
			do: []string{
				"look in the settings of this browser, at your own certificates, whether you have one, and until when it holds",
				"spore access DIR --p12 FILE, by somebody with the operator's folder, if you have none that holds; import the file here",
				anew + "; choose the certificate when it asks",
			},
		}
	}
	chain := r.TLS.PeerCertificates
	id, err := g.Identity()
	if err != nil {
		g.Say(err.Error())
		return nodeapi.Caller{}, &refusal{title: "This node cannot tell who you are", text: "It does not know its own authority now.",
			do: []string{"spore health DIR"}}
	}
	who, err := id.Verify(chain, nodeapi.Clock{Now: g.Now(), Behind: g.Behind()})
	if err != nil {
		return who, g.unknown(chain[0], err)
	}
	if no := g.ended(who); no != nil {
		return who, no
	}
	switch {
	case !who.Is(nodeapi.Lookers()...) || strings.Contains(who.Name, " "): // Nodes have readers, too (dashboard.ReaderCertificate).
		return who, &refusal{title: "This certificate is not that of a person", text: fmt.Sprintf("It belongs to %s. "+
			"The pages are for readers, operators and admins.", nodeapi.Harmless(who.Name)), do: []string{"spore access DIR --p12 FILE", anew}}
	case len(who.Nodes) > 0:
		return who, &refusal{title: "This certificate is limited to some nodes", text: fmt.Sprintf("It is for %s, and the pages are "+
			"about the whole cluster.", strings.Join(who.Nodes, ", ")),
			do: []string{"spore dashboard DIR --access FILE, which shows those nodes", "spore access DIR --p12 FILE, without --node"}}
	}
	return who, nil
}

// unknown says why a certificate does not hold.
func (g *gate) unknown(leaf *x509.Certificate, err error) *refusal {
	name := nodeapi.Harmless(leaf.Subject.CommonName)
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		if g.Now().Before(leaf.NotBefore) {
			return &refusal{title: "This certificate does not hold yet", text: fmt.Sprintf("That of %s begins at %s, and the clock of this "+
				"node has %s.", name, at(leaf.NotBefore), at(g.Now())), do: []string{"spore status DIR", "compare the clocks of the node and of the machine that made it"}}
		}
		return expired(nodeapi.Caller{Name: name, Ends: leaf.NotAfter})
	}
	return &refusal{title: "This certificate is not one of this cluster", text: fmt.Sprintf("That of %s is not signed by the authority of %s.",
		name, g.Cluster), do: []string{"spore access DIR --p12 FILE, with the folder of this cluster", "import the file into this browser", anew}}
}

// over is ended, and says so, too, where the authority of the certificate is none any more. A node that cannot read its
// own goes on with what it has found before.
func (g *gate) over(who nodeapi.Caller, chain []*x509.Certificate) *refusal {
	if no := g.ended(who); no != nil {
		return no
	}
	id, err := g.Identity()
	if err != nil {
		return nil
	}
	if _, err := id.Verify(chain, nodeapi.Clock{Now: g.Now(), Behind: g.Behind()}); err != nil {
		return g.unknown(chain[0], err)
	}
	return nil
}

// ended says why a certificate that has held holds no longer; nil while it does.
func (g *gate) ended(who nodeapi.Caller) *refusal {
	switch {
	case g.Now().After(who.Ends):
		return expired(who)
	case g.Withdrawn()[who.Serial]:
		return &refusal{title: "This certificate was withdrawn", text: fmt.Sprintf("The configuration of the cluster refuses that of %s "+
			"(%s).", nodeapi.Harmless(who.Name), who.Serial), do: []string{"ask who withdrew it: spore trail DIR", "spore access DIR --p12 FILE", anew}}
	}
	return nil
}

func expired(who nodeapi.Caller) *refusal {
	return &refusal{title: "This certificate has ended", text: fmt.Sprintf("That of %s ended at %s.", nodeapi.Harmless(who.Name), at(who.Ends)),
		do: []string{"spore access DIR --p12 FILE", "import the file into this browser, and remove the old one", anew}}
}

func at(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// roleOf is the most that a person may, as people call it.
func roleOf(who nodeapi.Caller) string {
	out := "nobody"
	for _, role := range nodeapi.Lookers() { // The least first.
		if slices.Contains(who.Roles, role) {
			out = strings.TrimPrefix(string(role), "spore:")
		}
	}
	return out
}

// foreign tells whether another page has the browser ask, which would show the certificate for it. A link that somebody
// follows is none (Fetch Metadata Request Headers, 2).
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	follows := r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	return site != "" && site != "same-origin" && site != "none" && !follows
}
