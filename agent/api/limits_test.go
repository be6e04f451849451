package api

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

func TestACertificateThatIsLimitedHoldsForItsNodesAlone(t *testing.T) {
	b := newBench(t, says(http.MethodGet, "/x", nodeapi.Lookers()...))
	b.server.Node = "n-1"
	limit := func(nodes ...string) pkix.Extension {
		e, err := nodeapi.Limit(nodes)
		require.NoError(t, err)
		return e
	}
	wrong := func(change func(*pkix.Extension)) pkix.Extension {
		e := limit("n-1")
		change(&e)
		return e
	}
	empty, err := asn1.Marshal([]string{})
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		more []pkix.Extension
		want string
	}{
		"an older one, for all":    {nil, ""},
		"for this one":             {[]pkix.Extension{limit("n-1")}, ""},
		"for this one and another": {[]pkix.Extension{limit("n-0", "n-1")}, ""},
		"for others":               {[]pkix.Extension{limit("n-0", "n-2")}, `403: "this certificate is limited to n-0, n-2, and this is n-1"`},
		"for nobody":               {[]pkix.Extension{wrong(func(e *pkix.Extension) { e.Value = empty })}, "no answer: "},
		"malformed":                {[]pkix.Extension{wrong(func(e *pkix.Extension) { e.Value = []byte("n-1") })}, "no answer: "},
		"malformed, uncritical": {[]pkix.Extension{wrong(func(e *pkix.Extension) {
			e.Value, e.Critical = []byte("n-1"), false
		})}, "no answer: "},
		"limited in a way of later": {[]pkix.Extension{wrong(func(e *pkix.Extension) {
			e.Id = append(asn1.ObjectIdentifier{}, e.Id...)
			e.Id[len(e.Id)-1]++
		})}, "no answer: "},
	} {
		t.Run(name, func(t *testing.T) {
			template := organizations("spore:reader")
			template.ExtraExtensions = tc.more
			_, err := b.ask(b.issue("anna", template), nodeapi.Request{Path: "/x"})
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
	b.server.Node = ""
	template := organizations("spore:reader")
	template.ExtraExtensions = []pkix.Extension{limit("n-1")}
	_, err = b.ask(b.issue("anna", template), nodeapi.Request{Path: "/x"})
	require.ErrorContains(t, err, "it answers 403", "a server that does not know its name takes none that is limited")
}

// serialOf is the serial number of an identity's certificate.
func serialOf(t *testing.T, id nodeapi.Identity) string {
	t.Helper()
	return nodeapi.Serial(pair(t, id).Leaf.SerialNumber)
}

func TestACertificateThatIsWithdrawnIsRefusedFromTheNextCallOn(t *testing.T) {
	b := newBench(t, says(http.MethodGet, "/x", nodeapi.Lookers()...))
	var gone atomic.Pointer[map[string]bool]
	gone.Store(&map[string]bool{})
	b.server.Withdrawn = func() map[string]bool { return *gone.Load() }
	anna, bert := b.issue("anna", organizations("spore:admin")), b.issue("bert", organizations("spore:admin"))
	// One connection that stays open, as that of a push.
	visit, err := b.client(anna).Visit("n-1")
	require.NoError(t, err)
	_, err = visit.Read(t.Context(), nodeapi.Request{Path: "/x"}, 100)
	require.NoError(t, err)

	gone.Store(&map[string]bool{serialOf(t, anna): true})
	_, err = visit.Read(t.Context(), nodeapi.Request{Path: "/x"}, 100)
	require.Error(t, err, "the connection that is open")
	_, err = b.ask(anna, nodeapi.Request{Path: "/x"})
	require.ErrorContains(t, err, "no answer: ", "a new one, at the door")
	_, err = b.ask(bert, nodeapi.Request{Path: "/x"})
	require.NoError(t, err, "others are served")
	gone.Store(&map[string]bool{})
	_, err = b.ask(anna, nodeapi.Request{Path: "/x"})
	require.NoError(t, err, "it is on the list no more")
}

func TestAFollowerWhoseCertificateIsWithdrawnIsCutOff(t *testing.T) {
	t.Parallel()
	follow := says(http.MethodGet, "/logs", nodeapi.Lookers()...)
	follow.Bound = time.Hour
	ended := make(chan error, 2)
	follow.Handle = func(w http.ResponseWriter, r *http.Request, _ nodeapi.Caller) {
		fmt.Fprintln(w, "a line")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	}
	b := newBench(t, follow)
	var gone atomic.Pointer[map[string]bool]
	gone.Store(&map[string]bool{})
	b.server.Withdrawn = func() map[string]bool { return *gone.Load() }
	open := func(id nodeapi.Identity) io.ReadCloser {
		body, err := b.client(id).Ask(t.Context(), "n-1", nodeapi.Request{Path: "/logs"})
		require.NoError(t, err)
		t.Cleanup(func() { _ = body.Close() })
		line := make([]byte, 7)
		_, err = io.ReadFull(body, line)
		require.NoError(t, err)
		return body
	}
	anna, bert := b.issue("anna", organizations("spore:reader")), b.issue("bert", organizations("spore:reader"))
	first, other := open(anna), open(bert)
	gone.Store(&map[string]bool{serialOf(t, anna): true})
	_, err := io.ReadAll(first)
	require.Error(t, err, "the answer breaks off")
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		require.Fail(t, "the handler goes on")
	}
	select {
	case <-ended:
		require.Fail(t, "the other one was cut off, too")
	case <-time.After(2 * evictEvery):
	}
	require.NoError(t, other.Close())
}

// A node that does not know what limits a certificate refuses it, whatever it is asked.
func TestWhoDoesNotKnowTheLimitRefusesTheCertificate(t *testing.T) {
	b := newBench(t)
	template := organizations("spore:admin")
	limit, err := nodeapi.Limit([]string{"n-1"})
	require.NoError(t, err)
	template.ExtraExtensions = []pkix.Extension{limit}
	certificate, err := x509.ParseCertificate(pair(t, b.issue("anna", template)).Certificate[0])
	require.NoError(t, err)
	_, err = certificate.Verify(x509.VerifyOptions{Roots: b.ca.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	var unhandled x509.UnhandledCriticalExtension
	require.ErrorAs(t, err, &unhandled)
}
