//go:build e2e

package nspawn

import (
	"bufio"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"spore/services/dns"
	"spore/services/logs"
	"spore/services/metrics"
	"spore/test/browser"
)

// alerts compares the page of alerts with Alertmanager, before and after one is silenced on the page.
func (l *pagesLab) alerts(t *testing.T) {
	one := l.Node("node-1")
	same := func() {
		l.agree("alerts", func() any { return l.column("severity", 0, 1, 2, 5) }, func() (any, error) {
			var all []struct {
				Labels, Annotations map[string]string
				Status              struct{ State string }
			}
			err := l.get(one, 9093, "/api/v2/alerts", metrics.AlertsPassword, &all)
			var out []string
			for _, a := range all {
				mark := map[string]string{"critical": "critical: ", "warning": "warning: ", "info": "warning: "}[a.Labels["severity"]]
				if a.Status.State == "suppressed" {
					mark = ""
				}
				if a.Labels["alertname"] != metrics.Watchdog {
					out = append(out, line(mark+a.Labels["severity"], a.Labels["alertname"], a.Labels["instance"], a.Annotations["summary"]))
				}
			}
			if len(out) < 2 && err == nil {
				err = fmt.Errorf("only %v", out)
			}
			return sorted(out), err
		})
	}
	l.open("/alerts")
	same()
	require.Contains(t, l.tab.Text(), "The press is too hot <img src=x onerror=window.hacked=1>", "what is hostile is text")
	l.tab.Type(`a[href*="SensorSilent"]`, kb.Enter)
	l.tab.Sees(browser.Patience, browser.Says("For how long"), "the form")
	l.tab.Type("#for", "2h")
	l.tab.Type("#comment", "a new "+rareWord+kb.Enter)
	l.tab.Sees(browser.Patience, `location.pathname === "/alerts" && `+browser.Says("a new "+rareWord), "the alert is silenced")
	same()
	var silences []struct{ CreatedBy, Comment string }
	require.NoError(t, l.get(one, 9093, "/api/v2/silences", metrics.AlertsPassword, &silences))
	require.Len(t, silences, 1)
	require.Equal(t, "a new "+rareWord, silences[0].Comment)
	rows := l.column("severity", 1, 4)
	require.Regexp(t, `^SensorSilent \| silenced ?by `+silences[0].CreatedBy+` until .*: a new `+rareWord+`$`, rows[1])

	l.open("/history")
	said := l.column("time (UTC)", 1, 2, 3, 4)
	require.Len(t, said, 1)
	require.Contains(t, one.MustExec("journalctl", "--quiet", "--output=cat", "--unit=spore-api.service"), "alerts-silence", "the node notes who asks")
	require.Regexp(t, `^node-1 \| `+silences[0].CreatedBy+` \(operator\), from 10\.84\.0\.1:\d+ \| alerts-silence`, said[0])
}

// logs compares the page of logs with the store, and with the journal of the node.
func (l *pagesLab) logs(t *testing.T) {
	one := l.Node("node-1")
	l.open("/logs?since=1h&grep=" + rareWord + "+%3Cimg")
	l.agree("lines", func() any {
		l.open("/logs?since=1h&grep=" + rareWord + "+%3Cimg")
		return l.column("time (UTC)", 0, 1, 2, 3)
	}, func() (any, error) {
		var entry map[string]string
		err := l.get(one, logs.Port, "/select/logsql/query?query="+url.QueryEscape(`"`+rareWord+`" SYSLOG_IDENTIFIER:press`), logs.PasswordEntry, &entry)
		if err != nil {
			return nil, err
		}
		at, err := time.Parse(time.RFC3339Nano, entry["_time"])
		return []string{line(at.UTC().Format("2006-01-02 15:04:05.000"), entry["node"], "press", "critical: "+entry["_msg"])}, err
	})
	require.Contains(t, l.column("time (UTC)", 3)[0], one.MustExec("journalctl", "--quiet", "--output=cat", "--identifier=press", "--priority=err"))
	require.Contains(t, l.tab.Text(), "1 line, the newest on top")
}

// stored holds that the daemons of each node and the audit log of Kubernetes are in the store of logs of the page, and that
// none of a cluster with all services wrote a secret.
func (l *pagesLab) stored(t *testing.T) {
	f, err := os.Open(l.storeHasNoSecret(t))
	require.NoError(t, err)
	defer f.Close()
	said := map[string]bool{}
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		var e struct {
			Unit string `json:"_SYSTEMD_UNIT"`
			Node string `json:"node"`
		}
		if json.Unmarshal(line, &e) == nil { // What is no text is an array.
			said[e.Node+" "+e.Unit] = true
		}
	}
	for _, n := range l.Nodes() {
		daemons := []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kafka", "ceph-mon", "ceph-mgr"}
		if n != l.Node("node-1") {
			daemons = append(daemons, "mosquitto", "coredns")
		}
		for _, d := range daemons {
			require.True(t, said[n.Facts.Name+" "+d+".service"], "%s of %s: %v", d, n.Facts.Name, said)
		}
	}
	out, errs, ok := l.quiet(t.Context(), "logs", "--all", "--since", "1d", "--source", "audit", "--json", "--lines", "10")
	require.True(t, ok, errs)
	require.Contains(t, out, `"_SPORE_SOURCE":"audit"`)
}

// charts compares each value under the charts of a node with what the store of metrics says for the same times.
func (l *pagesLab) charts(t *testing.T) {
	l.open("/charts?node=node-1&since=5m")
	l.tab.Sees(pagesBound, `[...document.querySelectorAll(".chart .state")].every((e) => !e.textContent.includes("is asked"))`, "all charts are drawn")
	shown := browser.Eval[[]struct {
		Series string
		Rows   [][]string
	}](l.tab, `[...document.querySelectorAll(".chart")].map((c) => ({Series: c.dataset.series,
		Rows: [...c.querySelectorAll("tbody tr")].map((r) => [...r.cells].map((e) => e.textContent))}))`)
	require.NotEmpty(t, shown)
	drawn := 0
	for _, c := range shown {
		at, err := url.Parse(c.Series)
		require.NoError(t, err)
		q := at.Query()
		var answer struct {
			Data struct {
				Result []struct {
					Metric map[string]string
					Values [][2]any
				}
			}
		}
		ask := url.Values{"query": {q.Get("q")}, "start": {q.Get("from")}, "end": {q.Get("until")}, "step": {"15"}}
		require.NoError(t, l.get(l.Node("node-1"), metrics.Port, "/api/v1/query_range?"+ask.Encode(), metrics.PasswordEntry, &answer))
		require.Len(t, c.Rows, len(answer.Data.Result), q.Get("q"))
		for i, series := range answer.Data.Result {
			var all []float64
			for _, v := range series.Values {
				n, err := strconv.ParseFloat(fmt.Sprint(v[1]), 64)
				require.NoError(t, err)
				all = append(all, n)
			}
			for k, want := range []float64{all[len(all)-1], slices.Min(all), slices.Max(all)} {
				require.InDelta(t, want, number(t, c.Rows[i][k+1]), 0.01*max(want, 0.01), "%s: %v", q.Get("q"), c.Rows[i])
			}
			drawn++
		}
	}
	require.Greater(t, drawn, 3)
	t.Logf("%d series are those of the store", drawn)
}

// number reads what people read.
func number(t *testing.T, text string) float64 {
	t.Helper()
	digits, unit, _ := strings.Cut(text, " ")
	n, err := strconv.ParseFloat(digits, 64)
	require.NoError(t, err, text)
	return n * map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[unit]
}

// certificates compares the ends with the certificates that the programs of each node have.
func (l *pagesLab) certificates(t *testing.T) {
	l.open("/certificates")
	rows := l.rows("whose")
	for _, n := range l.Nodes() {
		first := time.Time{}
		for rest := []byte(n.MustExec("sh", "-c", "cat /run/spore/secrets/*/*certificate")); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			c, err := x509.ParseCertificate(block.Bytes)
			require.NoError(t, err)
			if !c.IsCA && (first.IsZero() || c.NotAfter.Before(first)) {
				first = c.NotAfter
			}
		}
		require.Equal(t, []string{
			"ok: " + first.UTC().Format("2006-01-02 15:04 UTC"), fmt.Sprintf("%d days", int(time.Until(first).Hours()/24)),
			"a master, by itself, when two thirds of its life are over", "all that is new is in use",
		}, rows[n.Facts.Name+", the first of those of the node"], n.Facts.Name)
	}
}

// version is how an image is called: by the hash of its root.
func (l *pagesLab) version() string { return fmt.Sprintf("%.12s", l.started.RootHash) }

// versions compares which image runs with the one that was built.
func (l *pagesLab) versions(t *testing.T) {
	l.open("/versions")
	version := l.version()
	require.Equal(t, map[string][]string{version: {"3 nodes", "node-1, node-2, node-3"}}, l.rows("image"))
	for _, n := range l.Nodes() {
		require.Equal(t, []string{version, "that of the image", "the same", "no", "none: it takes nothing by itself"}, l.rows("node")["ok: "+n.Facts.Name])
	}
}

// node compares the page of a node with its systemd, its disk and its journal.
func (l *pagesLab) node(t *testing.T, n *Node) {
	l.open("/nodes/" + n.Facts.Name)
	l.agree("units of "+n.Facts.Name, func() any { return l.column("unit", 0, 1) }, func() (any, error) {
		var names []string
		for unit := range l.rows("unit") {
			names = append(names, unit)
		}
		sort.Strings(names)
		if len(names) < 10 {
			return nil, fmt.Errorf("only %v", names)
		}
		out, err := n.Exec(append([]string{"systemctl", "show", "--property=ActiveState", "--value"}, names...)...)
		states := strings.Fields(out)
		if len(states) != len(names) {
			return nil, fmt.Errorf("%d states of %d units", len(states), len(names))
		}
		for i := range names {
			mark := "ok: "
			if states[i] != "active" && states[i] != "inactive" {
				mark = "warning: "
			}
			names[i] = line(names[i], mark+states[i])
		}
		return sorted(names), err
	})
	require.Contains(t, l.tab.Text(), "system\n"+n.MustExec("systemctl", "is-system-running"))
	require.Contains(t, l.tab.Text(), strings.Join(n.Facts.Roles, ", "))
	l.agree("conditions of "+n.Facts.Name, func() any { return strings.Split(l.rows("condition")["space"][1], " is free")[0] }, func() (any, error) {
		var size, free int
		_, err := fmt.Sscan(n.MustExec("stat", "--file-system", "--format=%b %a", "/var"), &size, &free)
		return fmt.Sprintf("%d %% of /var", free*100/max(size, 1)), err
	})
	browser.Eval[bool](l.tab, `document.getElementById("journal").open = true`)
	l.tab.Sees(browser.Patience, browser.Says("New lines come as they are written"), "the journal is followed")
	n.MustExec("sh", "-ec", `printf '%s\n' "$0" | systemd-cat --identifier=press`, "followed "+hostile)
	l.tab.Sees(browser.Patience, browser.Says("followed "+hostile), "a line as it is written")
	require.Equal(t, "followed "+hostile, n.MustExec("journalctl", "--quiet", "--output=cat", "--identifier=press", "--lines=1"))

	l.open("/devices/" + n.Facts.Name)
	require.Regexp(t, `(?m)^`+n.card()+` .*`+n.MustExec("cat", "/sys/class/net/"+n.card()+"/address")+` .* `+n.IP()+`/24`, l.tab.Text())
}

// rates are counters of a service at times, for the rates between them.
type rates struct {
	at     []time.Time
	values []float64
}

func (r *rates) add(v float64) { r.at, r.values = append(r.at, time.Now()), append(r.values, v) }

// bounds are the least and the greatest rate of any time of half a question's length or more.
func (r *rates) bounds() (least, most float64) {
	least = 1e9
	for i := range r.at {
		for k := i + 1; k < len(r.at); k++ {
			if passed := r.at[k].Sub(r.at[i]).Seconds(); passed >= 10 {
				one := (r.values[k] - r.values[i]) / passed
				least, most = min(least, one), max(most, one)
			}
		}
	}
	return least, most
}

// holds tells whether a rate is one of those. A question that waits for a processor has a rate of a time that is a fifth
// longer or shorter than the page knows.
func (r *rates) holds(rate float64) bool {
	least, most := r.bounds()
	return rate >= least*0.8-0.1 && rate <= most*1.2+0.1
}

func (r *rates) String() string {
	least, most := r.bounds()
	return fmt.Sprintf("%.1f to %.1f", least, most)
}

// messaging compares the page of MQTT and DNS with what Mosquitto tells a client and with the counters of CoreDNS.
func (l *pagesLab) messaging(t *testing.T) {
	n := l.Node("node-2")
	const sys = "$SYS/broker/"
	gauges := []string{"clients/connected", "clients/disconnected", "subscriptions/count", "publish/messages/dropped", "retained messages/count"}
	told := func(topic string) string {
		all := l.screen.Messages(sys + topic)
		if len(all) == 0 {
			return "nothing"
		}
		return all[len(all)-1].Payload
	}
	codes := map[string]*rates{"NOERROR": {}, "NXDOMAIN": {}, "all": {}}
	received := &rates{}
	sample := func() {
		text, err := l.read(n, dns.PortMetrics, "/metrics", "")
		if err != nil {
			return
		}
		sums := map[string]float64{}
		for row := range strings.Lines(string(text)) {
			value := row[strings.LastIndexByte(strings.TrimSpace(row), ' ')+1:]
			v, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if strings.HasPrefix(row, "coredns_dns_requests_total{") {
				sums["all"] += v
			}
			for code := range codes {
				if strings.HasPrefix(row, "coredns_dns_responses_total{") && strings.Contains(row, `rcode="`+code+`"`) {
					sums[code] += v
				}
			}
		}
		for code, r := range codes {
			r.add(sums[code])
		}
		if v, err := strconv.ParseFloat(told("messages/received"), 64); err == nil {
			received.add(v)
		}
	}
	l.open("/messaging")
	began := time.Now()
	for {
		sample()
		var mqtt, names []string
		for _, table := range l.tables() {
			for _, row := range table.Rows {
				switch {
				case row[0] != "ok: "+n.Facts.Name:
				case len(row) == 10:
					mqtt = row
				case len(row) == 6:
					names = row
				}
			}
		}
		var want []string
		for _, topic := range gauges {
			want = append(want, told(topic))
		}
		if mqtt != nil && names != nil && names[1] != "–" {
			shown := []string{mqtt[1], mqtt[2], mqtt[3], mqtt[7], mqtt[9]}
			questions, _ := strconv.ParseFloat(names[1], 64)
			in, _ := strconv.ParseFloat(mqtt[4], 64)
			words := strings.Fields(names[3])
			by := map[string]float64{}
			for i := 0; i+2 < len(words); i += 3 {
				by[words[i+1]], _ = strconv.ParseFloat(words[i+2], 64)
			}
			if slices.Equal(shown, want) && questions > 0 && in > 0 && codes["all"].holds(questions) && codes["NOERROR"].holds(by["NOERROR"]) &&
				codes["NXDOMAIN"].holds(by["NXDOMAIN"]) && by["NXDOMAIN"] > by["NOERROR"] && received.holds(in) {
				t.Logf("the page has %v and %v, after %.1f s", mqtt, names, time.Since(began).Seconds())
				return
			}
		}
		if time.Since(began) > pagesBound {
			require.Fail(t, "the page does not have what the programs count", "%v, Mosquitto says %v; %v, CoreDNS counts %v; received %v", mqtt, want, names, codes, received)
		}
		time.Sleep(time.Second)
	}
}

// cluster compares the tiles and conditions of the first page with the nodes.
func (l *pagesLab) cluster(t *testing.T) {
	l.open("/")
	l.agree("tiles", func() any {
		return browser.Eval[[]string](l.tab, `[...document.querySelectorAll(".tile")].map((e) => [e.querySelector("a").textContent,
			e.querySelector(".roles").textContent, e.querySelector("p:not(.roles):not(.age)").textContent].join(" | "))`)
	}, func() (any, error) {
		var out []string
		for _, n := range l.Nodes() {
			state, err := n.Exec("systemctl", "is-system-running")
			if err != nil {
				return nil, err
			}
			out = append(out, line(n.Facts.Name, strings.Join(n.Facts.Roles, ", "), state+", "+l.version()))
		}
		return out, nil
	})
	l.agree("conditions", func() any { return maps.Clone(l.rows("condition")) }, func() (any, error) {
		out := map[string][]string{
			"answers": {"ok: ok", "3 of 3 nodes answer"}, "nodes": {"ok: ok", "those that answer are healthy"},
			"clocks": {"ok: ok", "within 5s of this machine's, where a node answers"},
		}
		for name, says := range map[string]func() ([]memberState, error){"etcd": l.etcdSays, "kafka": l.kafkaSays, "ceph-mon": l.cephSays} {
			all, err := says()
			if err != nil {
				return nil, err
			}
			serve := 0
			for _, m := range all {
				if m.serves {
					serve++
				}
			}
			out["quorum "+name] = []string{"ok: ok", fmt.Sprintf("%d of %d members serve", serve, len(all))}
		}
		return out, nil
	})
}
