package metrics

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"spore/cluster/check"
	"spore/cluster/role/setting"
	"spore/services/remote"
)

const (
	// maxDays is ten years.
	maxDays = 3660
	// minInterval bounds how often nodes are asked: an answer costs a node some 20 ms of a processor.
	minInterval = 5
	// maxJobs, maxTargets and maxSeries bound what a plant adds.
	maxJobs, maxTargets, maxSeries = 100, 1000, 100_000
)

// MaxInterval bounds how many seconds lie between two looks at a node: the shortest window of a rule that comes with
// the image is twice as long, and so is the time for which a node tells again what a slow source of it said (package
// spore/agent/metrics/source).
const MaxInterval = 60

// ownJobs are the labels job of what the store asks anyway.
var ownJobs = []string{"node", Program}

var jobName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`) })

// targetPath is a path without a query.
var targetPath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+/?$|^/$`) })

// checkSettings checks metrics.yaml.
func checkSettings(k *check.Checker, file check.File) {
	s := Of(k.Services)
	if file.Has("days") {
		k.Between(check.In(file, "days"), "days", s.Days, 1, maxDays)
	}
	if file.Has("size") {
		checkSize(k, check.In(file, "size"), s.Size)
	}
	if file.Has("interval") {
		k.Between(check.In(file, "interval"), "the interval", s.Interval, minInterval, MaxInterval)
	}
	checkAlerts(k, file, s.Alerts)
	if len(s.Scrape) > maxJobs {
		k.Errorf(check.In(file, "scrape"), "there are %d jobs; at most %d are possible", len(s.Scrape), maxJobs)
		return
	}
	names := k.Unique()
	for i, j := range s.Scrape {
		p := check.In(file, "scrape", i)
		switch {
		case !file.Has("scrape", i, "name"):
		case !jobName().MatchString(j.Name):
			k.Errorf(p.Then("name"), "the name %q is not valid; write 1 to 63 letters, digits, -, _ and ., the first a letter or digit", check.Clip(j.Name))
		case slices.Contains(ownJobs, j.Name):
			k.Errorf(p.Then("name"), "the name %s is of what the store asks anyway; take another", j.Name)
		default:
			names.Add(p.Then("name"), "the job", j.Name, "a job has one entry, with all its targets")
		}
		checkJob(k, p, j)
	}
}

// leastSize has room for the index and the samples of a small cluster.
const leastSize = 256 << 20

func checkSize(k *check.Checker, p check.Place, size string) {
	switch n, err := setting.ParseSize(size); {
	case err != nil:
		k.Errorf(p, "the size %s", err)
	case n < leastSize:
		k.Errorf(p, "the size %s is less than %s; write more", size, setting.Size(leastSize).Text())
	}
}

func checkJob(k *check.Checker, p check.Place, j Job) {
	if p.File.Has(append(p.Path, "scheme")...) {
		k.OneOf(p.Then("scheme"), "the scheme", j.Scheme, schemes)
	}
	if strings.Contains(j.Path, "?") { // It may hold a password, so that it is not repeated.
		k.Errorf(p.Then("path"), "the path has a query; write one such as /metrics, without it")
	} else if j.Path != "" && (len(j.Path) > 200 || !targetPath().MatchString(j.Path)) {
		k.Errorf(p.Then("path"), "the path %q is not valid; write one such as /metrics, without a query", check.Clip(j.Path))
	}
	if p.File.Has(append(p.Path, "series")...) {
		k.Between(p.Then("series"), "series", j.Series, 1, maxSeries)
	}
	switch {
	case len(j.Targets) == 0:
		k.Errorf(p, "the job has no targets; add one, such as plc-7.plant.example:9100")
	case len(j.Targets) > maxTargets:
		k.Errorf(p.Then("targets"), "there are %d targets; at most %d are possible", len(j.Targets), maxTargets)
		return
	}
	seen := k.Unique()
	for i, t := range j.Targets {
		q := p.Then("targets", i)
		if why := remote.BadAddress(t); why != "" {
			k.Errorf(q, "the target %q %s; write an address or a name with a port, such as plc-7.plant.example:9100", check.Clip(t), why)
			continue
		}
		seen.Add(q, "the target", strings.ToLower(t), "remove one")
	}
}

// schemes are those of a job.
var schemes = []string{"http", "https"}
