package metrics

import (
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"sync"

	"spore/cluster/check"
	"spore/services/remote"
)

const (
	// maxReceivers bounds the receivers, maxNodes the nodes with the role: Alertmanagers wait for each other in turn.
	maxReceivers, maxNodes = 20, 2
	// maxWait and maxRepeat are ten minutes and a week.
	maxWait, maxRepeat = 600, 7 * 24 * 60
	// maxTopic is how long a topic may be: below it come two levels more.
	maxTopic = 200
)

// Severities are what alerts of the image have in the label severity.
var Severities = []string{"critical", "warning", "info"}

// transports are those of syslog.
var transports = []string{"udp", "tcp", "tls"}

var receiverName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)
})

// topicForm is a topic without wildcards, and without empty levels.
var topicForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$`)
})

// ownNames are receivers that every Alertmanager of ours has.
var ownNames = []string{"nobody", "heartbeat"}

// checkAlerts checks what metrics.yaml says under alerts.
func checkAlerts(k *check.Checker, file check.File, a *Alerts) {
	if a == nil {
		return
	}
	at := check.In(file, "alerts")
	if len(k.MembersOf(AlertsRole)) == 0 {
		k.Warningf(at,
			"no node has the role %s, so nobody is told of anything; give it to a node with the role %s", AlertsRole, Role)
	}
	if file.Has("alerts", "wait") {
		k.Between(at.Then("wait"), "wait", a.Wait, 1, maxWait)
	}
	if file.Has("alerts", "repeat") {
		k.Between(at.Then("repeat"), "repeat", a.Repeat, 5, maxRepeat)
	}
	if len(a.Receivers) > maxReceivers {
		k.Errorf(at.Then("receivers"), "there are %d receivers; at most %d are possible", len(a.Receivers), maxReceivers)
		return
	}
	if len(a.Receivers) == 0 {
		k.Warningf(at, "there are no receivers: alerts are shown by `spore alerts`, and sent to nobody")
	}
	names := k.Unique()
	for i, r := range a.Receivers {
		p := at.Then("receivers", i)
		switch {
		case !p.File.Has(append(p.Path, "name")...):
		case !receiverName().MatchString(r.Name):
			k.Errorf(p.Then("name"), "the name %q is not valid; write 1 to 32 lower-case letters, digits and -, "+
				"with a letter or digit at both ends", check.Clip(r.Name))
		case slices.Contains(ownNames, r.Name):
			k.Errorf(p.Then("name"), "the name %s is taken already; choose another", r.Name)
		default:
			names.Add(p.Then("name"), "the receiver", r.Name, "each receiver has one entry")
		}
		checkReceiver(k, p, r)
	}
	if h := a.Heartbeat; h != nil {
		p := at.Then("heartbeat")
		if h.HTTP == nil && h.MQTT == nil {
			k.Errorf(p, "the heartbeat goes nowhere; write http or mqtt")
		}
		checkEndpoint(k, p.Then("http"), h.HTTP)
		checkMQTT(k, p.Then("mqtt"), h.MQTT)
	}
	checkOff(k, at.Then("off"), a.Off)
}

func checkReceiver(k *check.Checker, p check.Place, r Receiver) {
	ways := 0
	for _, is := range []bool{r.Webhook != nil, r.MQTT != nil, r.Syslog != nil, r.Email != nil} {
		if is {
			ways++
		}
	}
	if ways != 1 {
		k.Errorf(p, "a receiver has one of webhook, mqtt, syslog and email, and this one has %d", ways)
	}
	k.EachOf(p.Then("severities"), "the severity", r.Severities, Severities)
	checkEndpoint(k, p.Then("webhook"), r.Webhook)
	checkMQTT(k, p.Then("mqtt"), r.MQTT)
	checkSyslog(k, p.Then("syslog"), r.Syslog)
	checkEmail(k, p.Then("email"), r.Email)
}

func checkEndpoint(k *check.Checker, p check.Place, e *Endpoint) {
	if e == nil {
		return
	}
	switch {
	case e.URL == "" && e.SecretURL == nil:
		k.Errorf(p,
			"it has no url; write one such as https://shift.plant.example/alerts, or secretURL where knowing it is "+
				"enough to send")
	case e.URL != "" && e.SecretURL != nil:
		k.Errorf(p.Then("url"), "it has url and secretURL; write one of them")
	case e.URL != "":
		if why := remote.BadURL(e.URL); why != "" { // It may hold a password, so that it is not repeated.
			k.Errorf(p.Then("url"), "the url %s; write one such as https://shift.plant.example/alerts", why)
		}
	}
	if e.SecretURL != nil {
		k.SecretRef(p.Then("secretURL"), "secretURL", *e.SecretURL)
	}
	if e.Token != nil {
		k.SecretRef(p.Then("token"), "token", *e.Token)
		if strings.HasPrefix(strings.ToLower(e.URL), "http://") {
			k.Warningf(p.Then("url"), "the token goes over the network in clear text; write https:// where the server has it")
		}
	}
}

func checkMQTT(k *check.Checker, p check.Place, m *MQTT) {
	if m == nil {
		return
	}
	checkAddress(k, p, m.Address, "broker.plant.example:8883")
	if p.File.Has(append(p.Path, "topic")...) && (len(m.Topic) > maxTopic || !topicForm().MatchString(m.Topic)) {
		k.Errorf(p.Then("topic"), "the topic %q is not valid; write levels of letters, digits, ., _ and -, "+
			"such as plant/alerts", check.Clip(m.Topic))
	}
	if p.File.Has(append(p.Path, "user")...) {
		remote.CheckAccount(k, p.Then("user"), m.User)
	}
	k.SecretRef(p.Then("password"), "password", m.Password)
	if m.CA == ClusterCA {
		if !slices.Contains(k.Cluster.Services, "mqtt") {
			k.Errorf(p.Then("ca"), "the cluster has no brokers of its own; write the certificates of the broker's "+
				"authority as PEM")
		}
		return
	}
	remote.CheckCA(k, p.Then("ca"), m.CA)
}

func checkSyslog(k *check.Checker, p check.Place, s *Syslog) {
	if s == nil {
		return
	}
	checkAddress(k, p, s.Address, "log.plant.example:6514")
	if p.File.Has(append(p.Path, "transport")...) {
		k.OneOf(p.Then("transport"), "the transport", s.Transport, transports)
	}
	if s.Way() != "tls" && s.CA != "" {
		k.Errorf(p.Then("ca"), "%s has no certificates; remove ca, or write transport: tls", s.Transport)
		return
	}
	remote.CheckCA(k, p.Then("ca"), s.CA)
}

func checkEmail(k *check.Checker, p check.Place, e *Email) {
	if e == nil {
		return
	}
	checkAddress(k, p.Then(), e.Server, "mail.plant.example:587")
	for _, m := range []struct{ key, value string }{{"to", e.To}, {"from", e.From}} {
		if a, err := mail.ParseAddress(m.value); m.value != "" && (err != nil || a.Address != m.value) {
			k.Errorf(p.Then(m.key), "the mailbox %q is not valid; write one such as shift@plant.example", check.Clip(m.value))
		}
	}
	switch {
	case e.User == "" && e.Password != nil:
		k.Errorf(p, "there is a password and no user; add user")
	case e.User != "" && e.Password == nil:
		k.Errorf(p, "there is a user and no password; add password: {secretRef: …}")
	case e.User != "":
		remote.CheckAccount(k, p.Then("user"), e.User)
		k.SecretRef(p.Then("password"), "password", *e.Password)
	}
}

// checkAddress checks the key address, or server of a mailbox.
func checkAddress(k *check.Checker, p check.Place, address, such string) {
	key := "address"
	if !p.File.Has(append(p.Path, key)...) {
		key = "server"
	}
	if !p.File.Has(append(p.Path, key)...) {
		return // Load reports what is missing.
	}
	if why := remote.BadAddress(address); why != "" {
		k.Errorf(p.Then(key),
			"the address %q %s; write a name or an address with a port, such as %s", check.Clip(address), why, such)
	}
}

func checkOff(k *check.Checker, p check.Place, off []string) {
	seen := k.Unique()
	for i, name := range off {
		seen.Add(p.Then(i), "the rule", name, "remove one")
		if strings.EqualFold(name, Watchdog) {
			k.Errorf(p.Then(i), "the rule %s stays: by it one sees that alerts arrive", Watchdog)
		}
	}
}

// checkAlertsNodes checks the nodes with the role.
func checkAlertsNodes(k *check.Checker) {
	members := k.MembersOf(AlertsRole)
	for i, n := range members {
		p := check.In(k.File, "nodes", n, "roles")
		if !k.HasRole(n, Role) {
			k.Errorf(p,
				"%s has the role %s and not the role %s, whose store the rules are about; add it",
				k.NodeName(n), AlertsRole, Role)
		}
		if i >= maxNodes {
			k.Errorf(p,
				"%s is node %d with the role %s; at most %d are possible, of which each has everything",
				k.NodeName(n), i+1, AlertsRole, maxNodes)
		}
	}
}
