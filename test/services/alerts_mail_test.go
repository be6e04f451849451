//go:build e2e

package services

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"spore/cluster/spec"
	"spore/services/metrics"
	"spore/test/testca"
)

// mailServer is an SMTP server with one account. What it takes is in mails; what its clients sent it as it was on the
// network is in wire.
type mailServer struct {
	mails heard
	mu    sync.Mutex
	wire  bytes.Buffer
	calls int
	at    string
}

// The account of each mail server.
const mailUser, mailPassword = "spore", "a password of mail"

// newMailServer listens on loopback. Without a certificate it takes passwords and mail in clear.
func newMailServer(t *testing.T, certificate *tls.Certificate) *mailServer {
	t.Helper()
	m := &mailServer{}
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &mailSession{server: m}, nil }))
	s.Domain, s.MaxMessageBytes, s.MaxRecipients = "localhost", 1<<20, 10
	s.AllowInsecureAuth = certificate == nil
	s.ErrorLog = silent{} // Of those who refuse its certificate.
	if certificate != nil {
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m.at = net.JoinHostPort("localhost", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(recording{l, m}) }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, <-ended)
	})
	return m
}

// silent is a log that nobody reads.
type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

// recording keeps what comes over its connections, before TLS is taken off.
type recording struct {
	net.Listener
	m *mailServer
}

func (l recording) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.m.mu.Lock()
	l.m.calls++
	l.m.mu.Unlock()
	return recorded{c, l.m}, nil
}

type recorded struct {
	net.Conn
	m *mailServer
}

func (c recorded) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.wire.Write(p[:n])
	return n, err
}

func (m *mailServer) inClear() (wire string, calls int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wire.String(), m.calls
}

// mailSession is one client, who has to say who it is.
type mailSession struct {
	server   *mailServer
	known    bool
	envelope string
}

var errUnknown = &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "wrong password"}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if s.known = user == mailUser && password == mailPassword; !s.known {
			return errUnknown
		}
		return nil
	}), nil
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	if !s.known {
		return smtp.ErrAuthRequired
	}
	s.envelope = "from " + from
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.envelope += " to " + to
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.server.mails.add(s.envelope + "\n" + string(text))
	return nil
}

func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }

// Mail goes to an SMTP server that has TLS, a certificate that somebody known made for its name, and the account. To
// others nothing goes: no password and no alert is on the network in clear, and the metric says that the receiver
// fails.
func TestAlertsAreMailed(t *testing.T) {
	ca, err := testca.New("mail")
	require.NoError(t, err)
	unknown, err := testca.New("mail")
	require.NoError(t, err)
	of := func(ca *testca.CA, name string) *tls.Certificate {
		certificate, key, err := ca.Server(name)
		require.NoError(t, err)
		pair, err := tls.X509KeyPair(certificate, key)
		require.NoError(t, err)
		return &pair
	}
	servers := map[string]*mailServer{
		"mail":        newMailServer(t, of(ca, "localhost")),
		"password":    newMailServer(t, of(ca, "localhost")),
		"clear":       newMailServer(t, nil),
		"authority":   newMailServer(t, of(unknown, "localhost")),
		"name":        newMailServer(t, of(ca, "mail.plant.example")),
		"not-at-home": {at: net.JoinHostPort("localhost", strconv.Itoa(freePort(t)))},
	}
	settings := &metrics.Alerts{Wait: 1}
	for name, s := range servers {
		secret := "mail"
		if name == "password" {
			secret = "mail-wrong"
		}
		settings.Receivers = append(settings.Receivers, metrics.Receiver{Name: name, Email: &metrics.Email{
			To: "shift@plant.example", From: "spore@plant.example", Server: s.at, User: mailUser,
			Password: &spec.SecretRef{SecretRef: secret},
		}})
	}
	a := newAlerting(t, "observer-01", settings, ca)
	a.secrets["mail"], a.secrets["mail-wrong"] = []byte(mailPassword+"\n"), []byte("another "+mailPassword+"\n")
	// The machine's authorities are those of this test.
	roots := filepath.Join(t.TempDir(), "roots.pem")
	require.NoError(t, os.WriteFile(roots, ca.PEM(), 0o600))
	a.environment = []string{"SSL_CERT_FILE=" + roots, "SSL_CERT_DIR=/nonexistent"}
	a.runManager()

	post := func(ends string) {
		code, body := a.ask(a.manager, "/api/v2/alerts", `[{"labels":{"alertname":"DiskFull","severity":"critical","instance":"edge-01","cluster":"observed",
			"mountpoint":"/var\r\nBcc: somebody@plant.example"},"annotations":{"summary":"The disk is full."}`+ends+`}]`)
		require.Equal(t, http.StatusOK, code, body)
	}
	post("")
	t.Run("a mail to a server that is as it should be", func(t *testing.T) {
		mails := &servers["mail"].mails
		mails.hears(t, "from spore@plant.example to shift@plant.example\n")
		for _, line := range []string{"From: spore@plant.example\r\n", "To: shift@plant.example\r\n"} {
			require.Equal(t, 1, mails.count(line), mails.all())
		}
		require.Regexp(t, `(?m)^Subject: .*FIRING:1.*DiskFull`, unfolded(mails.all()))
		headers, _, _ := strings.Cut(mails.all(), "\r\n\r\n")
		require.NotContains(t, headers, "\nBcc:", "a label makes no header")
		post(`,"endsAt":"` + time.Now().UTC().Format(time.RFC3339) + `"`)
		ended := regexp.MustCompile(`(?m)^Subject: .*RESOLVED.*DiskFull`)
		require.Eventually(t, func() bool { return ended.MatchString(unfolded(mails.all())) },
			20*time.Second, 100*time.Millisecond, "it says that the alert ends")
	})
	t.Run("none to others, of whom the metric tells", func(t *testing.T) {
		for name := range servers {
			want := name != "mail"
			require.Eventually(t, func() bool { return a.failed(name) > 0 == want }, 20*time.Second, 100*time.Millisecond, name)
		}
		require.Zero(t, a.failed("mail"))
		for name, s := range servers {
			if name != "mail" {
				require.Empty(t, s.mails.all(), name)
			}
		}
	})
	t.Run("nothing is on the network in clear", func(t *testing.T) {
		plain := base64.StdEncoding.EncodeToString([]byte("\x00" + mailUser + "\x00" + mailPassword))
		for name, s := range servers {
			wire, calls := s.inClear()
			require.Equal(t, name != "not-at-home", calls > 0, name)
			for _, secret := range []string{"AUTH", plain, mailPassword, "MAIL FROM", "RCPT TO", "DiskFull", "shift@"} {
				require.NotContains(t, wire, secret, name)
			}
			if name != "not-at-home" {
				require.Contains(t, wire, "EHLO ", name)
				require.Equal(t, name != "clear", strings.Contains(wire, "STARTTLS\r\n"), name)
			}
		}
	})
}

// unfolded are headers each on one line, with words as they are meant (RFC 5322, section 2.2.3; RFC 2047).
func unfolded(text string) string {
	text = regexp.MustCompile(`\r?\n[ \t]+`).ReplaceAllString(text, " ")
	text = regexp.MustCompile(`(?i)=\?utf-8\?q\?(.*?)\?=\s*`).ReplaceAllString(text, "$1")
	return strings.ReplaceAll(text, "=3A", ":")
}

// failed is how many messages for a receiver were given up, as the collector reads it.
func (a *alerting) failed(receiver string) int {
	a.t.Helper()
	_, page := a.ask(a.manager, "/metrics", "")
	n, err := counted(page, "alertmanager_notifications_failed_total", fmt.Sprintf("receiver_name=%q", receiver))
	require.NoError(a.t, err)
	return n
}

// counted is the sum of the series of a family that have a label.
func counted(page, family, label string) (sum int, err error) {
	found := false
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, family+"{") || !strings.Contains(line, label) {
			continue
		}
		n, err := strconv.Atoi(strings.Fields(line[strings.LastIndex(line, "}")+1:])[0])
		if err != nil {
			return 0, err
		}
		found, sum = true, sum+n
	}
	if !found {
		return 0, errors.New("there is no " + family + " with " + label)
	}
	return sum, nil
}
