package rules

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/VictoriaMetrics/metricsql"

	"spore/cluster/check"
)

// with begins a template of MetricsQL. A few of them in one another are an expression without a bound.
var with = regexp.MustCompile(`(?i)\bwith(?:\s|#[^\n]*\n)*\(`)

// checkExpr refuses what the store would not answer.
func checkExpr(expr string) error {
	if with.MatchString(expr) {
		return errors.New("WITH is not taken; write the expression out")
	}
	e, err := metricsql.Parse(expr)
	if err != nil {
		return fmt.Errorf("it is not valid MetricsQL: %w", err)
	}
	var unknown string
	selects := false
	metricsql.VisitAll(e, func(e metricsql.Expr) {
		switch e := e.(type) {
		case *metricsql.FuncExpr:
			if !metricsql.IsSupportedFunction(e.Name) {
				unknown = e.Name
			}
			selects = selects || e.Name == "vector" || e.Name == "absent"
		case *metricsql.MetricExpr:
			selects = true
		}
	})
	switch {
	case unknown != "":
		return fmt.Errorf("there is no function %q", check.Clip(unknown))
	case !selects:
		return errors.New("it selects no series; write one such as up{job=\"node\"} == 0")
	}
	return nil
}
