//go:build e2e

package dashboard

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"software.sslmate.com/src/go-pkcs12"

	"spore/agent/nodetest"
	"spore/agent/status"
	"spore/test/browser"
)

// choices are the certificates, by the name in them, that the browser of the test shows without a dialog to each port of
// the node. It never asks twice at one: it remembers what it has shown, as that of a person does.
var choices = map[int]string{8644: "anna", 8645: "bert", 8646: "carla", 8647: server, 8648: "mallory"}

// Ports at which the browser is asked for a certificate before the person has one that it offers.
const noneAt, uselessAt = 8651, 8652

// visitor is a person with a browser of its own, which knows the certificates of the person alone.
type visitor struct {
	t       *testing.T
	has     browser.Certificates
	browser *browser.Browser
}

// newVisitor starts the browser of somebody who has imported root.crt, after a first look without it.
func newVisitor(t *testing.T, p *rolePlant) *visitor {
	t.Helper()
	home := t.TempDir()
	has, err := browser.NewCertificates(home)
	require.NoError(t, err)
	p.spore("pki", "export", p.configs, "--name", "root", "-o", home)
	person := browser.Person{Home: home, Hosts: map[string]string{}, Shows: map[string]string{}}
	for port, name := range choices {
		person.Shows[originAt(port)] = name
		person.Hosts[fmt.Sprintf("%s:%d", server, port)] = p.at
	}
	for _, port := range []int{noneAt, uselessAt} {
		person.Hosts[fmt.Sprintf("%s:%d", server, port)] = p.at
	}
	other := server + "." + p.facts.Domain // The browser keeps what it thinks of a certificate by the name.
	person.Hosts[other+":8644"] = p.at
	b, err := person.Start()
	require.NoError(t, err)
	t.Cleanup(b.End)
	// The name is one of the certificate: nothing but the authority is in doubt.
	distrusts := b.Profile(t)
	distrusts.Warns("https://" + other + ":8644/")
	distrusts.Sees(browser.Patience, browser.Says(other), "the warning of the browser")
	require.NotContains(t, distrusts.Text(), "shown no certificate", "a page of ours")
	require.NoError(t, has.Trust("plant", filepath.Join(home, "root.crt")))
	return &visitor{t, has, b}
}

func originAt(port int) string { return fmt.Sprintf("https://%s:%d", server, port) }

// imports takes a certificate for which there is no file of the command.
func (v *visitor) imports(pair tls.Certificate) {
	v.t.Helper()
	var chain []*x509.Certificate
	for _, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		require.NoError(v.t, err)
		chain = append(chain, c)
	}
	data, err := pkcs12.Modern.WithRand(rand.Reader).Encode(pair.PrivateKey, pair.Leaf, chain, "secret")
	require.NoError(v.t, err)
	file := filepath.Join(v.t.TempDir(), "pair.p12")
	require.NoError(v.t, os.WriteFile(file, data, 0o600))
	require.NoError(v.t, v.has.Import(file, "secret"))
}

// opens opens a page of the node, by the certificate that is shown at a port.
func (v *visitor) opens(port int, path string) *browser.Tab {
	v.t.Helper()
	b := v.browser.Tab(v.t)
	b.Open(originAt(port) + path)
	b.Secure()
	return b
}

// refused holds that a page says why somebody is not let in, and what to do, and nothing of the cluster.
func (v *visitor) refused(port int, wants ...string) {
	v.t.Helper()
	b := v.opens(port, "/")
	for _, want := range wants {
		b.Sees(browser.Patience, browser.Says(want), want)
	}
	require.Equal(v.t, 0, browser.Eval[int](b, "document.querySelectorAll('nav, script, form, a, img').length"), "it says nothing of the cluster")
	on := []screen{screens[0], screens[3]}
	if port != noneAt { // All have the style of that one.
		on = on[1:]
	}
	for _, s := range on {
		b.Look(s.width, s.scheme)
		require.LessOrEqual(v.t, browser.Eval[int64](b, "document.documentElement.scrollWidth"), s.width)
		accessible(v.t, b, s.scheme)
	}
	wrong := b.Wrong() // The browser tells of the status on the console, too.
	require.Len(v.t, wrong, 1)
	require.Contains(v.t, wrong[0], "the server responded with a status of 403")
	b.Clean(originAt(port))
}

// ended holds that a page that was open says why, and nothing else any more.
func ended(t *testing.T, b *browser.Tab, wants ...string) {
	t.Helper()
	for _, want := range append(wants, "spore access DIR --p12 FILE") {
		b.Sees(10*time.Second, browser.Says(want), want)
	}
	require.Equal(t, 0, browser.Eval[int](b, "document.querySelectorAll('.troubles, .tiles, table').length"), "what it has shown is gone")
	require.False(t, browser.Eval[bool](b, "document.querySelector('#main').classList.contains('stale')"))
	accessible(t, b, wants[0])
}

func TestABrowserShowsTheCertificateOfAPerson(t *testing.T) {
	t.Parallel()
	p := newRolePlant(t)
	v := newVisitor(t, p)
	const another = "0d5fe4d1-2f0f-4a3e-8f43-2f3a6a0c3c55"
	none := []string{"This browser has shown no certificate", "look in the settings of this browser", "spore access DIR --p12 FILE", "choose the certificate"}
	v.refused(noneAt, none...)
	v.imports(p.another(another).made("stranger", time.Now()))
	v.imports(p.made("old", time.Now().Add(-2*time.Hour)))
	v.refused(uselessAt, append(none, "neither one that has ended nor one of another cluster")...) // The browser offers none of the two.

	// What docs/dashboard.md tells a person.
	serials := map[string]string{}
	for user, life := range map[string]string{"anna": "720h", "bert": "1h"} {
		file, password, serial := p.access(user, life)
		require.NoError(t, v.has.Import(file, password))
		serials[user] = serial
	}
	anna := v.opens(8644, "/")
	anna.Sees(browser.Patience, browser.Says("edge-01")+"&&"+browser.Says("no route to host"), "the cluster")
	ends := time.Now().Add(720 * time.Hour).UTC().Format("2006-01-02 ")
	anna.Sees(browser.Patience, browser.Says("You are anna, reader, until "+ends), "whose certificate it is")
	p.says(status.Line{System: "degraded", Failed: []string{"sensor.service"}})
	anna.Sees(10*time.Second, browser.Says("sensor.service failed"), "a unit that failed, while the page is open")
	for path, want := range map[string]string{
		"/alerts": "give alerts to a node in cluster.yaml", "/alerts/silence?name=x": "spore alerts silence", "/charts": "Give it to a node in cluster.yaml",
	} {
		b := v.opens(8644, path)
		b.Sees(browser.Patience, browser.Says(want), want)
		require.Equal(t, 0, browser.Eval[int](b, "document.querySelectorAll('form[method=post]').length"), path)
		accessible(t, b, path)
	}

	// Others that a browser shows.
	v.imports(p.another(p.facts.ID).made("mallory", time.Now()))
	v.imports(p.made("carla", time.Now(), server))
	own, err := p.m.Client().Identity()
	require.NoError(t, err)
	itself, err := tls.X509KeyPair(own.Certificate, own.Key)
	require.NoError(t, err)
	v.imports(itself)
	v.refused(8646, "This certificate is limited to some nodes", "It is for edge-01", "without --node")
	v.refused(8647, "This certificate is not that of a person", "It belongs to edge-01", "spore access DIR --p12 FILE")
	v.refused(8648, "This certificate is not one of this cluster", "mallory", "with the folder of this cluster")

	bert := v.opens(8645, "/")
	bert.Sees(browser.Patience, browser.Says("You are bert"), "whose certificate it is")
	p.cut()
	anna.Sees(15*time.Second, browser.Says("no node answers edge-01, which serves this page")+"&&"+browser.Says("spore status configs"), "no node answers")
	accessible(t, anna, "no node answers")
	p.ahead.Store(int64(61 * time.Minute))
	ended(t, bert, "This certificate has ended", "That of bert ended at ")
	v.refused(8645, "This certificate has ended", "remove the old one")
	require.False(t, browser.Eval[bool](anna, browser.Says("has ended")), "that of anna holds")
	nodetest.Withdraw(t, p.m, serials["anna"])
	ended(t, anna, "This certificate was withdrawn", serials["anna"], "spore trail DIR")
	v.refused(8644, "This certificate was withdrawn", serials["anna"], "spore trail DIR")
	for _, b := range []*browser.Tab{anna, bert} {
		require.Empty(t, b.Wrong())
	}
}
