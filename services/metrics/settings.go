package metrics

import (
	"strconv"

	"spore/cluster/role/setting"
	"spore/cluster/spec"
)

// Settings is configs/services/metrics.yaml.
type Settings struct {
	// Days is for how many days samples are kept; 30 when 0.
	Days int `yaml:"days,omitempty" json:"days,omitempty"`
	// Size is what samples and their index may fill on the disk, such as 20GiB; the oldest go where they fill more.
	// Without a bound when empty.
	Size string `yaml:"size,omitempty" json:"size,omitempty"`
	// Interval is how many seconds lie between two looks at a node, 5 to 60; 30 when 0.
	Interval int `yaml:"interval,omitempty" json:"interval,omitempty"`
	// Scrape are other things of the plant that have metrics, which the store asks from its node.
	Scrape []Job `yaml:"scrape,omitempty" json:"scrape,omitempty"`
	// Alerts is who is told when something is wrong, by nodes with the role alerts.
	Alerts *Alerts `yaml:"alerts,omitempty" json:"alerts,omitempty"`
}

// Job is a set of targets that are asked alike.
type Job struct {
	// Name is the label job of their series.
	Name string `yaml:"name" json:"name"`
	// Targets are addresses with ports, such as plc-7.plant.example:9100.
	Targets []string `yaml:"targets" json:"targets"`
	// Path is what is asked for; /metrics when empty.
	Path string `yaml:"path,omitempty" json:"path,omitempty"`
	// Scheme is http or https, whose certificate has to be of an authority that Debian's ca-certificates have; http when
	// empty.
	Scheme string `yaml:"scheme,omitempty" json:"scheme,omitempty"`
	// Series is how many series a target may have; an answer with more is dropped as a whole. 5,000 when 0.
	Series int `yaml:"series,omitempty" json:"series,omitempty"`
}

// Service is the name of the service.
func (*Settings) Service() string { return Name }

// Of returns the settings of the service; nil when it is not enabled.
func Of(s spec.Services) *Settings { return spec.Of[Settings](s) }

const (
	defaultDays     = 30
	defaultInterval = 30
	defaultSeries   = 5000
)

// Kept is for how long samples are kept, as VictoriaMetrics takes it, such as 30d.
func (s *Settings) Kept() string {
	if s.Days == 0 {
		return strconv.Itoa(defaultDays) + "d"
	}
	return strconv.Itoa(s.Days) + "d"
}

// Bytes is what the data of the store may fill; 0 is without a bound.
func (s *Settings) Bytes() uint64 {
	n, err := setting.ParseSize(s.Size)
	if err != nil { // Empty; others are refused before.
		return 0
	}
	return uint64(n)
}

// Seconds lie between two looks at a node.
func (s *Settings) Seconds() int {
	if s.Interval == 0 {
		return defaultInterval
	}
	return s.Interval
}

// MostSeries is how many series a target of the job may have.
func (j Job) MostSeries() int {
	if j.Series == 0 {
		return defaultSeries
	}
	return j.Series
}
