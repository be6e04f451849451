// Package validate is the command `spore validate`.
package validate

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"spore/builder/cmd/exit"
	"spore/builder/cmd/folder"
	"spore/builder/cmd/inputs"
	"spore/cluster"
	"spore/cluster/answers"
	"spore/cluster/check"
)

// Result is what --json prints.
type Result struct {
	OK       bool            `json:"ok"`
	Nodes    int             `json:"nodes"`
	Errors   int             `json:"errors"`
	Warnings int             `json:"warnings"`
	Problems []check.Problem `json:"problems"`
}

// Command returns the command.
func Command() *cobra.Command {
	var strict, asJSON bool
	var answerFile string
	cmd := &cobra.Command{
		Use:   "validate [DIR]",
		Short: "Check a configuration, and list all errors with file and line",
		Long: `Validate reads every file of the folder DIR (configs when left out) and prints all problems at once, each with
file, line and column, what is wrong and what to write instead. Errors make the command fail; warnings name a risk, and
fail too with --strict; notes are worth knowing.

With --answers it also checks an answer file for an unattended installation against the configuration.`,
		Example: "  spore validate\n  spore validate configs --strict\n  spore validate configs --json\n  spore validate configs --answers edge-01.yaml",
		Args:    exit.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := inputs.Dir(args)
			return run(cmd.OutOrStdout(), dir, answerFile, strict, asJSON)
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "treat warnings as errors")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the problems as JSON")
	cmd.Flags().StringVar(&answerFile, "answers", "", "also check this answer file for an unattended installation")
	return cmd
}

func run(w io.Writer, dir, answerFile string, strict, asJSON bool) error {
	c, report, err := folder.Check(dir, strict)
	if err != nil {
		return err
	}
	of, all := dir, report.Under(dir)
	if answerFile != "" {
		more, err := checkAnswers(answerFile, c, report.Failed())
		if err != nil {
			return err
		}
		of, all = dir+" with "+answerFile, append(all, more...)
	}
	r := Result{!all.Failed(), len(c.Cluster.Nodes), all.Count(check.Error), all.Count(check.Warning), all}
	if asJSON {
		if r.Problems == nil {
			r.Problems = []check.Problem{}
		}
		if err := json.NewEncoder(w).Encode(r); err != nil {
			return err
		}
	} else {
		fmt.Fprint(w, all)
		if r.OK {
			fmt.Fprintf(w, "%s is valid: %s, %s\n", of, count(r.Nodes, "node"), count(r.Warnings, "warning"))
		}
	}
	if !r.OK {
		return fmt.Errorf("%s has %s and %s", of, count(r.Errors, "error"), count(r.Warnings, "warning"))
	}
	return nil
}

// checkAnswers checks an answer file. Where the configuration has errors, only its form is judged.
func checkAnswers(name string, c *cluster.Config, failed bool) (check.Report, error) {
	f, report, err := answers.Read(name)
	if err != nil || failed {
		return report, err
	}
	_, nodes := cluster.Facts(c)
	return append(report, answers.Check(f, nodes)...).Sorted(), nil
}

// count is "1 error" or "3 errors".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
