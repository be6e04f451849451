package logs

import (
	"regexp"
	"strings"
	"sync"

	"spore/cluster/check"
	"spore/cluster/role/setting"
	"spore/cluster/spec"
	"spore/services/remote"
)

const (
	// maxDays is ten years.
	maxDays = 3660
	// leastSize has room for two days of a small cluster, of which the older one can go.
	leastSize = 512 << 20
	// leastQueue and mostQueue bound what waits: some minutes of a large cluster, and what a disk has room for.
	leastQueue, mostQueue = 64 << 20, 1 << 40
	// leastFile and mostFile bound a receiver's file.
	leastFile, mostFile = 1 << 20, 1 << 40
	// maxReceivers bounds the receivers, and maxNodes the stores: each gets everything from every node.
	maxReceivers, maxNodes = 10, 2
)

var receiverName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)
})

// tenantForm is what Loki takes for an organization in every version.
var tenantForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,150}$`) })

// indexForm is a name that Elasticsearch takes for an index (create index API, path parameters).
var indexForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,199}$`) })

// checkSettings checks logs.yaml.
func checkSettings(k *check.Checker, file check.File) {
	s := Of(k.Services)
	if file.Has("days") {
		k.Between(check.In(file, "days"), "days", s.Days, 1, maxDays)
	}
	if file.Has("size") {
		checkSize(k, check.In(file, "size"), "the size", s.Size, leastSize, 1<<50)
	}
	if file.Has("queue") {
		checkSize(k, check.In(file, "queue"), "the queue", s.Queue, leastQueue, mostQueue)
	}
	if len(s.Give) > maxReceivers {
		k.Errorf(check.In(file, "give"), "there are %d receivers; at most %d are possible", len(s.Give), maxReceivers)
		return
	}
	names := k.Unique()
	for i, r := range s.Give {
		p := check.In(file, "give", i)
		switch {
		case !file.Has("give", i, "name"):
		case !receiverName().MatchString(r.Name):
			k.Errorf(p.Then("name"), "the name %q is not valid; write 1 to 32 lower-case letters, digits and -, "+
				"with a letter or digit at both ends", check.Clip(r.Name))
		default:
			names.Add(p.Then("name"), "the receiver", r.Name, "each receiver has one entry")
		}
		checkReceiver(k, p, r)
	}
}

// checkSize checks a size between two bounds in bytes.
func checkSize(k *check.Checker, p check.Place, what, size string, least, most setting.Size) {
	switch n, err := setting.ParseSize(size); {
	case err != nil:
		k.Errorf(p, "%s %s", what, err)
	case n < least:
		k.Errorf(p, "%s %s is less than %s; write more", what, size, least.Text())
	case n > most:
		k.Errorf(p, "%s %s is more than %s; write less", what, size, most.Text())
	}
}

func checkReceiver(k *check.Checker, p check.Place, r Receiver) {
	ways := 0
	for _, is := range []bool{r.Syslog != nil, r.Loki != nil, r.Elasticsearch != nil, r.File != nil} {
		if is {
			ways++
		}
	}
	if ways != 1 {
		k.Errorf(p, "a receiver has one of syslog, loki, elasticsearch and file, and this one has %d", ways)
	}
	k.EachOf(p.Then("sources"), "the source", r.Sources, Sources)
	if has(p, "priority") {
		k.OneOf(p.Then("priority"), "the priority", r.Priority, Priorities)
	}
	checkSyslog(k, p.Then("syslog"), r.Syslog)
	checkLoki(k, p.Then("loki"), r.Loki)
	checkElasticsearch(k, p.Then("elasticsearch"), r.Elasticsearch)
	if q := p.Then("file"); r.File != nil && has(q, "size") {
		checkSize(k, q.Then("size"), "the size", r.File.Size, leastFile, mostFile)
	}
}

func has(p check.Place, key string) bool { return p.File.Has(append(p.Path, key)...) }

func checkSyslog(k *check.Checker, p check.Place, s *Syslog) {
	if s == nil {
		return
	}
	if why := remote.BadAddress(s.Address); why != "" && has(p, "address") {
		k.Errorf(p.Then("address"), "the address %q %s; write a name or an address with a port, such as "+
			"log.plant.example:6514", check.Clip(s.Address), why)
	}
	if has(p, "transport") {
		k.OneOf(p.Then("transport"), "the transport", s.Transport, transports)
	}
	if s.Way() != "tls" && s.CA != "" {
		k.Errorf(p.Then("ca"), "%s has no certificates; remove ca, or write transport: tls", s.Transport)
		return
	}
	remote.CheckCA(k, p.Then("ca"), s.CA)
}

func checkLoki(k *check.Checker, p check.Place, l *Loki) {
	if l == nil {
		return
	}
	checkServer(k, p, l.URL, l.CA, "https://loki.plant.example:3100")
	if has(p, "tenant") && !tenantForm().MatchString(l.Tenant) {
		k.Errorf(p.Then("tenant"), "the tenant %q is not valid; write 1 to 150 letters, digits, ., _ and -",
			check.Clip(l.Tenant))
	}
	checkAccess(k, p, access{url: l.URL, user: l.User, password: l.Password, key: "token", secret: l.Token})
}

func checkElasticsearch(k *check.Checker, p check.Place, e *Elasticsearch) {
	if e == nil {
		return
	}
	checkServer(k, p, e.URL, e.CA, "https://search.plant.example:9200")
	if has(p, "index") && !indexForm().MatchString(e.Index) {
		k.Errorf(p.Then("index"), "the index %q is not valid; write 1 to 200 lower-case letters, digits, ., _ and -, "+
			"the first a letter or digit", check.Clip(e.Index))
	}
	checkAccess(k, p, access{url: e.URL, user: e.User, password: e.Password, key: "apiKey", secret: e.APIKey})
}

// checkServer checks the keys url and ca.
func checkServer(k *check.Checker, p check.Place, url, ca, such string) {
	switch why := remote.BadURL(url); {
	case !has(p, "url"): // Load reports what is missing.
	case why != "": // It may hold a password, so that it is not repeated.
		k.Errorf(p.Then("url"), "the url %s; write one such as %s", why, such)
	case strings.Contains(url, "?"):
		k.Errorf(p.Then("url"), "the url has a query; write one such as %s, without it", such)
	}
	if plain(url) && ca != "" {
		k.Errorf(p.Then("ca"), "http has no certificates; remove ca, or write https://")
		return
	}
	remote.CheckCA(k, p.Then("ca"), ca)
}

func plain(url string) bool { return strings.HasPrefix(strings.ToLower(url), "http://") }

// access is how a server knows who sends: user and password, or the secret of a key.
type access struct {
	url, user string
	password  *spec.SecretRef
	key       string
	secret    *spec.SecretRef
}

func checkAccess(k *check.Checker, p check.Place, a access) {
	switch {
	case a.user == "" && a.password != nil:
		k.Errorf(p, "there is a password and no user; add user")
	case a.user != "" && a.password == nil:
		k.Errorf(p, "there is a user and no password; add password: {secretRef: …}")
	case a.user != "":
		remote.CheckAccount(k, p.Then("user"), a.user)
		k.SecretRef(p.Then("password"), "password", *a.password)
	}
	if a.secret != nil {
		k.SecretRef(p.Then(a.key), a.key, *a.secret)
		if a.user != "" {
			k.Errorf(p.Then(a.key), "there are a user and %s; write one of them", a.key)
		}
	}
	if plain(a.url) && (a.password != nil || a.secret != nil) {
		k.Warningf(p.Then("url"), "the password or the %s goes over the network in clear text; write https:// where the "+
			"server has it", a.key)
	}
}

// checkNodes checks how many nodes have a store.
func checkNodes(k *check.Checker) {
	for i, n := range k.MembersOf(Role) {
		if i >= maxNodes {
			k.Errorf(check.In(k.File, "nodes", n, "roles"),
				"%s is node %d with the role %s; at most %d are possible, of which each gets everything",
				k.NodeName(n), i+1, Role, maxNodes)
		}
	}
}
