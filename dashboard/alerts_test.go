package dashboard

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/services/metrics"
	"spore/wire/machine"
)

func TestAlertsThatNobodyKnowsAreSaid(t *testing.T) {
	p := newPlant(t, "edge-01")
	p.problem = errors.New("edge-01: no answer in time")
	p.round()
	_, text := p.page(t, "/")
	require.Contains(t, text, "it is not known which alerts fire: edge-01: no answer in time")
	require.NotContains(t, text, "the alert that always fires does not")
	hot := machine.Alert{
		Labels: map[string]string{machine.AlertName: "PressTooHot", machine.Severity: "critical"}, State: machine.Fires,
		Since: p.time().Add(time.Minute), Summary: "the press is too hot", Runbook: "https://wiki.plant.example/press#hot",
	}
	quiet := machine.Alert{Labels: map[string]string{machine.AlertName: metrics.Watchdog}, State: machine.Silenced}
	p.problem, p.alerts = nil, []machine.Alert{hot, quiet}
	p.round()
	_, text = p.page(t, "/alerts")
	require.Contains(t, text, metrics.Watchdog, "it is silenced")
	require.Contains(t, text, "1 alert fires 1 alert is silenced. Asked moments ago.")
	require.Contains(t, text, "0 s ago", "a clock that is ahead makes no age below zero")
	p.problem = errors.New("edge-01: no answer in time")
	p.round()
	_, text = p.page(t, "/")
	require.Contains(t, text, "it is not known which alerts fire")
	require.Contains(t, text, "last known: the press is too hot")
	require.Contains(t, text, "read https://wiki.plant.example/press#hot")
	_, text = p.page(t, "/alerts")
	require.Contains(t, text, "Alerts, as they were known last")
	p.problem, p.alerts = nil, nil
	p.round()
	_, text = p.page(t, "/")
	require.Contains(t, text, "the alert that always fires does not: alerts may be missing")
	_, text = p.page(t, "/alerts")
	require.Contains(t, text, "No alert fires")
	p.watch(t, Asker{Timeout: time.Second})
	p.round()
	_, text = p.page(t, "/alerts")
	require.Contains(t, text, "No node has the role alerts")
	require.Contains(t, text, "give alerts to a node in cluster.yaml")
	require.Contains(t, text, "spore push configs")
}
