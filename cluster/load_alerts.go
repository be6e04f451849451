package cluster

import (
	"maps"
	"path"
	"slices"

	"spore/cluster/alertrules"
	"spore/cluster/check"
	"spore/services/metrics"
	"spore/services/metrics/rules"
)

// alertsDir holds a plant's own rules of alerts.
const alertsDir = servicesDir + "/alerts"

// loadAlerts reads the rules of alerts, and gives them to the settings where a node evaluates them.
func (l *loader) loadAlerts(c *Config) {
	names := l.yamlFiles(alertsDir)
	if len(names) > rules.MaxFiles {
		l.add(check.Error, alertsDir, 1, 1, "holds %d files; at most %d are read: write more alerts into a file",
			len(names), rules.MaxFiles)
		return
	}
	c.alertFiles = map[string][]byte{}
	for _, name := range names {
		data, err := l.read(name)
		switch {
		case err != nil:
			l.add(check.Error, name, 1, 1, "cannot be read: %v", plain(err))
		case len(data) > rules.MaxFile:
			l.add(check.Error, name, 1, 1, "is larger than %d KiB; write some of its alerts into another file",
				rules.MaxFile>>10)
		default:
			c.alertFiles[name] = data
		}
	}
	problems, err := alertrules.Check(c.alertFiles)
	if err != nil {
		l.add(check.Error, alertsDir, 1, 1, "%v", err)
	}
	for _, p := range problems {
		l.add(check.Error, p.File, p.Line, p.Column, "%s", p.Message)
	}
	l.giveAlerts(c)
}

// giveAlerts puts the rules into the settings.
func (l *loader) giveAlerts(c *Config) {
	s := metrics.Of(c.Services)
	if s == nil || !evaluatesAlerts(c) {
		return
	}
	if s.Alerts == nil {
		s.Alerts = &metrics.Alerts{}
	}
	var err error
	if s.Alerts.Rules, err = alertrules.Shipped(s.Alerts.Off); err != nil {
		l.add(check.Error, servicesDir+"/metrics.yaml", 1, 1, "%v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.alertFiles)) {
		s.Alerts.Rules = append(s.Alerts.Rules, metrics.RuleFile{
			Name: "plant-" + path.Base(name), Text: string(c.alertFiles[name]),
		})
	}
}

// evaluatesAlerts tells whether a node has the role: nobody else carries the rules.
func evaluatesAlerts(c *Config) bool {
	for _, n := range c.Cluster.Nodes {
		if slices.Contains(n.Roles, metrics.AlertsRole) {
			return true
		}
	}
	return false
}

// checkAlerts finds rules that nobody evaluates, and names of rules that there are not.
func (k *checker) checkAlerts() {
	if len(k.c.alertFiles) > 0 && !evaluatesAlerts(k.c) {
		first := slices.Sorted(maps.Keys(k.c.alertFiles))[0]
		k.Warningf(check.In(&source{path: first}),
			"nothing evaluates this: no node has the role %s; give it to a node with the role %s",
			metrics.AlertsRole, metrics.Role)
	}
	s := metrics.Of(k.Services)
	if s == nil || s.Alerts == nil {
		return
	}
	file := k.c.services[metrics.Name]
	for i, name := range s.Alerts.Off {
		k.OneOf(check.In(file, "alerts", "off", i), "the rule", name, alertrules.Names())
	}
}
