package alerts

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"spore/builder/cmd/reach"
	"spore/builder/cmd/verb"
	"spore/cluster/facts"
	"spore/fleet/alerts"
	"spore/services/metrics"
	"spore/test/testca"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

const (
	watchdog = `{"labels":{"alertname":"Watchdog"},"state":"fires","since":"2026-11-20T09:00:00Z"}`
	silent   = `{"labels":{"alertname":"NodeSilent","instance":"edge-01","severity":"critical"},"state":"fires","since":"2026-11-26T08:48:00Z",
		"summary":"edge-01 does not answer","runbook":"alerts#nodesilent"}`
	quiet = `{"labels":{"alertname":"Odd\u001b[2J","severity":"a\tb"},"state":"silenced","since":"2026-11-24T07:00:00Z","summary":"\u001b]0;x\u0007",
		"runbook":"https://wiki.plant.example/odd","silences":[{"id":"1","by":"bert\u202e","ends":"2026-11-26T12:00:00Z"},{"id":"2"}]}`
	held = `{"labels":{"alertname":"EtcdSlow","instance":"master-1","severity":"warning"},"state":"held back","since":"2026-11-26T10:00:00Z"}`
)

var now = time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)

func parts(texts ...string) (out []json.RawMessage) {
	for _, text := range texts {
		out = append(out, json.RawMessage("["+text+"]"))
	}
	return out
}

func TestAlertsAreARowEach(t *testing.T) {
	var out strings.Builder
	require.NoError(t, shown(now)(&out, "observer-01", parts(watchdog+","+silent, quiet+","+held)))
	require.Equal(t, `SEVERITY  ALERT       NODE      SINCE  STATE                                                    SUMMARY                  WHAT TO DO
critical  NodeSilent  edge-01   12m    fires                                                    edge-01 does not answer  docs/alerts.md#nodesilent
a b       Odd\x1b[2J  -         2d2h   silenced by bert\u202e until 2026-11-26T12:00:00Z, by 2  \x1b]0;x\x07             https://wiki.plant.example/odd
warning   EtcdSlow    master-1  0s     held back                                                -                        -
`, out.String())

	out.Reset()
	require.NoError(t, shown(now)(&out, "observer-01", parts(watchdog)))
	require.Empty(t, out.String(), "the alert that always fires is no row")
	require.NoError(t, shown(now)(&out, "observer-01", parts(strings.Replace(watchdog, "fires", "silenced", 1))))
	require.Contains(t, out.String(), "Watchdog", "but when it is silenced")
	require.ErrorContains(t, shown(now)(&out, "observer-01", []json.RawMessage{[]byte("{}")}), "malformed")
}

func TestTheExitCodeSaysWhetherAnAlertFires(t *testing.T) {
	for name, c := range map[string]struct {
		results []json.RawMessage
		err     string
	}{
		"nothing":                    {parts(watchdog), ""},
		"silenced and held back":     {parts(watchdog, quiet, held), ""},
		"one":                        {parts(watchdog, silent, quiet), "1 alert fires"},
		"two":                        {parts(watchdog+","+silent, silent), "2 alerts fire"},
		"nothing, without Watchdog":  {nil, "the alert Watchdog does not fire"},
		"one, without Watchdog":      {parts(silent), "the alert Watchdog does not fire"},
		"an answer that is not one":  {[]json.RawMessage{[]byte("1")}, "the answer is malformed"},
		"Watchdog that was silenced": {parts(strings.Replace(watchdog, "fires", "silenced", 1)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.err == "" {
				require.NoError(t, judge(c.results))
				return
			}
			require.ErrorContains(t, judge(c.results), c.err)
		})
	}
}

func TestAgesHaveTwoUnits(t *testing.T) {
	for text, want := range map[string]string{
		"-5s": "0s", "59.9s": "59s", "1m": "1m", "59m59s": "59m", "1h": "1h0m", "23h59m": "23h59m", "24h": "1d0h", "2405h": "100d5h",
	} {
		d, err := time.ParseDuration(text)
		require.NoError(t, err)
		require.Equal(t, want, age(d), text)
	}
}

func TestASilenceNamesWhatItIsFor(t *testing.T) {
	whole := silence{length: "2h", comment: "new power supply"}
	with := func(change func(*silence)) silence {
		s := whole
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		name string
		s    silence
		want map[string]string
		err  string
	}{
		"an alert": {"NodeSilent", whole, map[string]string{"name": "NodeSilent", "for": "2h0m0s", "comment": "new power supply"}, ""},
		"all of a node": {"all", with(func(s *silence) { s.node, s.length = "edge-01", "30d" }),
			map[string]string{"node": "edge-01", "for": "720h0m0s", "comment": "new power supply"}, ""},
		"labels": {"all", with(func(s *silence) { s.labels = []string{"job=press", `line=a="b",c`} }),
			map[string]string{"labels": `{"job":"press","line":"a=\"b\",c"}`, "for": "2h0m0s", "comment": "new power supply"}, ""},
		"everything":          {"all", whole, nil, "all silences every alert; give --node or --label, too"},
		"no time":             {"A", with(func(s *silence) { s.length = "" }), nil, "for how long? Write --for 2h, or --for 3d"},
		"too short":           {"A", with(func(s *silence) { s.length = "4m59s" }), nil, "--for 4m59s is not within 5m and 30d"},
		"too long":            {"A", with(func(s *silence) { s.length = "31d" }), nil, "--for 31d is not within 5m and 30d"},
		"a time that is none": {"A", with(func(s *silence) { s.length = "soon" }), nil, `--for: "soon" is not a time; write for instance 30d or 12h`},
		"no reason":           {"A", with(func(s *silence) { s.comment = " " }), nil, "why? Others will want to know: write --comment 'new power supply'"},
		"no value":            {"A", with(func(s *silence) { s.labels = []string{"job="} }), nil, `--label "job=" is not valid; write NAME=VALUE, such as job=press`},
		"no name":             {"A", with(func(s *silence) { s.labels = []string{"=x"} }), nil, `--label "=x" is not valid; write NAME=VALUE, such as job=press`},
		"a label twice":       {"A", with(func(s *silence) { s.labels = []string{"a=1", "a=2"} }), nil, "--label a is given twice; a label has one value"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.s.order(c.name)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got.Arguments)
			require.NoError(t, verb.Row("alerts-silence").Check(got))
		})
	}
	forced := with(func(s *silence) { s.force, s.dryRun = "watchdog", true })
	got, err := forced.order("Watchdog")
	require.NoError(t, err)
	require.Equal(t, "watchdog", got.Force)
	require.True(t, got.DryRun)
	require.NoError(t, verb.Row("alerts-silence").Check(got))
}

func TestASilenceIsForANodeThatThereIs(t *testing.T) {
	nodes := []facts.Node{{Name: "edge-01"}}
	require.NoError(t, known("edge-01", nodes))
	require.NoError(t, known("", nodes))
	require.EqualError(t, known("edge-1", nodes), `there is no node "edge-1"; for another target write --label instance=edge-1`)
}

func TestSilencesAreARowEach(t *testing.T) {
	var out strings.Builder
	require.NoError(t, showSilences(&out, "observer-01", parts(
		`{"id":"a","by":"anna","comment":"new\u001b[2Jdisk","begins":"2026-11-26T08:00:00Z","ends":"2026-11-26T12:00:00Z",
			"matchers":[{"name":"alertname","operator":"=","value":"NodeSilent"},{"name":"job","operator":"!~","value":"a.*\u001b"}]}`,
		`{"id":"b","pending":true,"begins":"2026-11-27T08:00:00Z","ends":"2026-11-27T12:00:00Z"}`)))
	require.Equal(t, `ID  ALERTS                                    BY    UNTIL                                              COMMENT
a   {alertname="NodeSilent", job!~"a.*\x1b"}  anna  2026-11-26T12:00:00Z                               new\x1b[2Jdisk
b   {}                                        -     from 2026-11-27T08:00:00Z to 2026-11-27T12:00:00Z  -
`, out.String())
	out.Reset()
	require.NoError(t, showSilences(&out, "observer-01", nil))
	require.Empty(t, out.String())
	require.ErrorContains(t, showSilences(&out, "observer-01", []json.RawMessage{[]byte("{}")}), "malformed")
}

const (
	broken = `{"error":"ask Alertmanager: connection refused"}`
	sees   = `{"result":[` + watchdog + `]}` + "\n" + `{"done":"firing: 0"}`
)

// roled is a cluster of the nodes a, b and c, of which those with an answer have the role. One whose answer is empty is
// off.
func roled(t *testing.T, answers map[string]string) (*reach.Cluster, *cobra.Command, *bytes.Buffer) {
	t.Helper()
	ca, err := testca.New("agents")
	require.NoError(t, err)
	certificate, key, err := ca.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "anna"}})
	require.NoError(t, err)
	at := map[string][]string{}
	cluster := &reach.Cluster{Timeout: time.Minute, Client: nodeapi.Client{
		Identity: func() (nodeapi.Identity, error) {
			return nodeapi.Identity{Certificate: certificate, Key: key, Authorities: ca.PEM()}, nil
		},
		Addresses: func(node string) ([]string, error) { return at[node], nil },
	}}
	for _, node := range []string{"a", "b", "c"} {
		n := facts.Node{Name: node}
		if text, has := answers[node]; has {
			n.Roles = []string{metrics.AlertsRole}
			at[node] = []string{"127.0.0.1:1"}
			if text != "" {
				at[node] = []string{serve(t, ca, node, text)}
			}
		}
		cluster.Nodes = append(cluster.Nodes, n)
	}
	var errs bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetContext(context.Background())
	cmd.SetErr(&errs)
	return cluster, cmd, &errs
}

func TestAllNodesAreAskedWhatFires(t *testing.T) {
	other := strings.NewReplacer("fires", "silenced", "08:48", "08:40").Replace(silent)
	lines := func(alerts string) string {
		return `{"result":[` + strings.ReplaceAll(alerts, "\n", " ") + `]}` + "\n" + `{"done":"done"}`
	}
	for name, c := range map[string]struct {
		answers map[string]string // of the nodes with the role
		from    string
		// says is on the other screen, and rows are the alerts with what they do.
		says string
		rows []string
		fail string
	}{
		"both see the same":        {map[string]string{"a": sees, "b": sees}, "a, b", "", []string{"Watchdog fires 09:00"}, ""},
		"the first is broken":      {map[string]string{"a": broken, "b": sees}, "b", "a: ask Alertmanager: connection refused\n", []string{"Watchdog fires 09:00"}, ""},
		"the second is broken":     {map[string]string{"a": sees, "b": broken}, "a", "b: ask Alertmanager: connection refused\n", []string{"Watchdog fires 09:00"}, ""},
		"the first is off":         {map[string]string{"a": "", "b": sees}, "b", "a: ", []string{"Watchdog fires 09:00"}, ""},
		"both are broken":          {map[string]string{"a": broken, "b": broken}, "", "", nil, "ask Alertmanager: connection refused"},
		"there is no other":        {map[string]string{"b": broken}, "", "", nil, "ask Alertmanager: connection refused"},
		"one has what other lacks": {map[string]string{"a": lines(watchdog + "," + held), "b": lines(watchdog + "," + silent)}, "a, b", "", []string{"Watchdog fires 09:00", "NodeSilent fires 08:48", "EtcdSlow held back 10:00"}, ""},
		"silenced at one of them":  {map[string]string{"a": lines(other), "b": lines(silent)}, "a, b", "", []string{"NodeSilent fires 08:40"}, ""},
		"silenced at the other":    {map[string]string{"a": lines(silent), "b": lines(other)}, "a, b", "", []string{"NodeSilent fires 08:40"}, ""},
		"silenced at both":         {map[string]string{"a": lines(other), "b": lines(other)}, "a, b", "", []string{"NodeSilent silenced 08:40"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, cmd, errs := roled(t, c.answers)
			answers, err := look(cmd, cluster, verb.Row("alerts"))
			require.NoError(t, err)
			if c.fail != "" {
				require.Len(t, answers, len(c.answers))
				for _, a := range answers {
					require.ErrorContains(t, a.Err, c.fail)
				}
				return
			}
			require.Len(t, answers, 1)
			require.NoError(t, answers[0].Err)
			require.Equal(t, c.from, answers[0].Node.Name)
			require.True(t, strings.HasPrefix(errs.String(), c.says) && (c.says != "" || errs.Len() == 0), errs.String())
			all, err := alerts.Read[machine.Alert](answers[0].Value.Results)
			require.NoError(t, err)
			var rows []string
			for _, a := range all {
				rows = append(rows, a.Labels["alertname"]+" "+a.State+" "+a.Since.Format("15:04"))
			}
			require.Equal(t, c.rows, rows)
		})
	}
	t.Run("an answer that is not one", func(t *testing.T) {
		cluster, cmd, _ := roled(t, map[string]string{"a": sees, "b": lines("1")})
		_, err := look(cmd, cluster, verb.Row("alerts"))
		require.ErrorContains(t, err, "b: the answer is malformed")
	})
	t.Run("all are off", func(t *testing.T) {
		cluster, cmd, _ := roled(t, map[string]string{"a": "", "b": ""})
		_, err := look(cmd, cluster, verb.Row("alerts"))
		require.ErrorContains(t, err, "no node with the role alerts answers: a: ")
	})
}

func TestThePageHasWhatAllKnowThatAnswer(t *testing.T) {
	lines := func(alerts string) string {
		return `{"result":[` + strings.ReplaceAll(alerts, "\n", " ") + `]}` + "\n" + `{"done":"done"}`
	}
	for name, c := range map[string]struct {
		answers map[string]string // of the nodes with the role
		rows    []string
		fail    string
	}{
		"one has what other lacks": {map[string]string{"a": lines(watchdog + "," + held), "b": lines(watchdog + "," + silent)},
			[]string{"Watchdog", "NodeSilent", "EtcdSlow"}, ""},
		"the first is broken": {map[string]string{"a": broken, "b": sees}, []string{"Watchdog"}, ""},
		"both are broken":     {map[string]string{"a": broken, "b": broken}, nil, "b: ask Alertmanager: connection refused"},
		"nobody has the role": {nil, nil, "no node that is asked has the role alerts"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, _, _ := roled(t, c.answers)
			all, err := alerts.Now(t.Context(), cluster)
			if c.fail != "" {
				require.ErrorContains(t, err, c.fail)
				return
			}
			require.NoError(t, err)
			var rows []string
			for _, a := range all {
				rows = append(rows, a.Labels["alertname"])
			}
			require.Equal(t, c.rows, rows)
			require.Len(t, cluster.Nodes, 3, "the cluster stays as it is")
		})
	}
}

func TestWhereAnAlertmanagerIsDownTheNextNodeIsToldOfASilence(t *testing.T) {
	const next = "a: ask Alertmanager: connection refused; the next node with the role alerts is asked\n"
	for name, c := range map[string]struct {
		answers map[string]string // of the nodes with the role
		from    string
		errs    string
		err     bool
	}{
		"the first does it":       {map[string]string{"a": sees, "b": broken}, "a", "", false},
		"the first is broken":     {map[string]string{"a": broken, "b": sees}, "b", next, false},
		"the first is off":        {map[string]string{"a": "", "b": sees}, "b", "", false},
		"both are broken":         {map[string]string{"a": broken, "b": broken}, "b", next, true},
		"there is no other":       {map[string]string{"a": broken}, "a", "", true},
		"the first is not asked":  {map[string]string{"b": sees}, "b", "", false},
		"the others have no role": {map[string]string{"b": broken}, "b", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, cmd, errs := roled(t, c.answers)
			answers, err := verb.InTurn(cmd, cluster, metrics.AlertsRole, verb.Row("alerts-silences"), nodeapi.Order{})
			require.NoError(t, err)
			require.Len(t, answers, 1)
			require.Equal(t, c.from, answers[0].Node.Name)
			require.Equal(t, c.err, answers[0].Err != nil, "%v", answers[0].Err)
			require.Equal(t, c.errs, errs.String())
		})
	}
}

// serve is a node that answers the verb with a text.
func serve(t *testing.T, ca *testca.CA, node, text string) (address string) {
	t.Helper()
	certificate, key, err := ca.Issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: node, Organization: []string{string(nodeapi.Node)}}, DNSNames: []string{node},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != nodeapi.StatusPath {
			_, _ = w.Write([]byte(text + "\n"))
		}
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
