package cluster

import (
	"net/url"
	"slices"
	"strings"

	"spore/cluster/check"
	"spore/cluster/identity"
	"spore/cluster/spec"
	"spore/wire/nodeapi"
)

// maxTrial bounds trialMinutes and trialSettle to a day each.
const maxTrial = 24 * 60

func (k *checker) checkCluster() {
	src, c := k.c.cluster, k.Cluster
	if src.Has("name") {
		k.Label(check.In(src, "name"), "the cluster's name", c.Name)
	}
	if src.Has("id") {
		if _, err := identity.Normalize(identity.UUID, c.ID); err != nil {
			k.Errorf(check.In(src, "id"), "the cluster id %q is not a unique UUID; write the output of uuidgen once, and never change it", check.Clip(c.ID))
		}
	}
	if src.Has("domain") {
		switch {
		case !check.IsDomain(c.Domain):
			k.Errorf(check.In(src, "domain"), "the domain %q is not a DNS name; write labels of lower-case letters, digits and - with dots between, such as plant.example", check.Clip(c.Domain))
		case c.Domain == "local" || strings.HasSuffix(c.Domain, ".local"):
			k.Warningf(check.In(src, "domain"), "the domain %q ends in .local, which belongs to multicast DNS (RFC 6762): machines will ask the wire instead of the DNS server; choose another", c.Domain)
		}
	}
	k.checkServiceList()
	k.checkState(src, c.State)
	k.Between(check.In(src, "trialMinutes"), "trialMinutes", c.TrialMinutes, 0, maxTrial)
	k.Between(check.In(src, "trialSettle"), "trialSettle", c.TrialSettle, 0, maxTrial)
	k.checkUpdates()
	k.checkWithdrawn()
	k.checkLogRights()
	if src.Has("nodes") && len(c.Nodes) == 0 {
		k.Errorf(check.In(src, "nodes"), "there are no nodes; list at least one with its name and roles")
	}
}

// maxUpdatesFrom bounds how many addresses a node tries in turn.
const maxUpdatesFrom = 8

// checkUpdates checks where nodes look for updates.
func (k *checker) checkUpdates() {
	u, p := k.Cluster.Updates, check.In(k.c.cluster, "updates")
	if u == nil {
		return
	}
	k.Between(p.Then("every"), "every", u.Every, 0, spec.MaxUpdatesEvery)
	if k.c.cluster.Has("updates", "from") && len(u.From) == 0 {
		k.Errorf(p.Then("from"), "there is no address of updates; write one such as https://updates.example/plant, or "+
			"remove updates")
	}
	if len(u.From) > maxUpdatesFrom {
		k.Errorf(p.Then("from"), "there are %d addresses of updates, and %d are the most; remove some", len(u.From),
			maxUpdatesFrom)
		return
	}
	seen := k.Unique()
	for i, from := range u.From {
		at := p.Then("from", i)
		a, err := url.Parse(from)
		switch {
		case err != nil || a.Scheme != "http" && a.Scheme != "https" || a.Hostname() == "":
			k.Errorf(at, "%q is not the address of a folder; write https://HOST/PATH or http://HOST/PATH", check.Clip(from))
		case a.User != nil:
			if _, has := a.User.Password(); !has { // A password is said of every file.
				k.Errorf(at, "the address of updates has a user; remove it: updates hold no secret and are signed")
			}
		case a.RawQuery != "" || a.Fragment != "":
			k.Errorf(at, "%q has a ? or a #, behind which no folder is; write https://HOST/PATH", check.Clip(from))
		default:
			seen.Add(at, "the address", from, "remove one")
		}
	}
}

// maxWhy bounds what is said of a certificate that was withdrawn, in bytes.
const maxWhy = 256

// checkWithdrawn checks the list of certificates that nodes refuse.
func (k *checker) checkWithdrawn() {
	list, p := k.Cluster.Withdrawn, check.In(k.c.cluster, "withdrawn")
	if len(list) > spec.MaxWithdrawn {
		k.Errorf(p, "%d certificates are withdrawn, and %d are the most; remove those that have ended, or replace the "+
			"authority (spore pki rotate-ca agent)", len(list), spec.MaxWithdrawn)
		return
	}
	seen := k.Unique()
	for i, w := range list {
		at := p.Then(i, "serial")
		switch {
		case !k.c.cluster.Has("withdrawn", i, "serial"): // The decoder has said that it is missing.
		case !nodeapi.IsSerial(w.Serial):
			k.Errorf(at, "%q is not the serial number of a certificate; write it in lower-case hexadecimal, as "+
				"`spore access --list` shows it, in quotation marks", check.Clip(w.Serial))
		default:
			seen.Add(at, "the serial number", w.Serial, "remove one")
		}
		for key, text := range map[string]string{"user": w.User, "why": w.Why} {
			if len(text) > maxWhy {
				k.Errorf(p.Then(i, key), "this has %d bytes, and %d are the most; write less", len(text), maxWhy)
			}
		}
	}
}

// checkLogRights checks the lists of who may read which logs.
func (k *checker) checkLogRights() {
	rights, p := k.Cluster.LogRights, check.In(k.c.cluster, "logRights")
	if rights == nil {
		return
	}
	lists := map[string][]string{"audit": rights.Audit, "pods": rights.Pods}
	for _, key := range []string{"audit", "pods"} {
		list := lists[key]
		if k.c.cluster.Has("logRights", key) && len(list) == 0 {
			k.Errorf(p.Then(key), "nobody is in this list; write admin for admins alone, or remove %s, and operators may", key)
		}
		if len(list) > spec.MaxLogRights {
			k.Errorf(p.Then(key), "there are %d entries, and %d are the most; write the word for a role", len(list), spec.MaxLogRights)
			continue
		}
		seen := k.Unique()
		for i, who := range list {
			at := p.Then(key, i)
			if _, isRole := nodeapi.RoleOf(who); !isRole && !nodeapi.IsPerson(who) {
				k.Errorf(at, "%q is neither reader, operator or admin nor the name of a person; write a name as it is in "+
					"`spore access`: letters, digits and @ . _ -", check.Clip(who))
				continue
			}
			seen.Add(at, "the entry", who, "remove one")
		}
	}
}

func (k *checker) checkServiceList() {
	src := k.c.cluster
	if src.Faulty(src.At("services")) {
		return
	}
	seen := k.Unique()
	for i, name := range k.Cluster.Services {
		p := check.In(src, "services", i)
		if !k.OneOf(p, "the service", name, k.list.Names()) || !seen.Add(p, "the service", name, "remove one") {
			continue
		}
		if k.c.services[name] == nil {
			k.Errorf(p, "the service %q has no settings; write %s/%s.yaml (an empty file takes the defaults, if there are any)", name, servicesDir, name)
		}
	}
	for _, name := range k.list.Names() {
		if s := k.c.services[name]; s != nil && !slices.Contains(k.Cluster.Services, name) {
			k.Warningf(check.In(s), "the service %q is not in services of cluster.yaml, so this file does nothing; add it there or remove the file", name)
		}
	}
}
