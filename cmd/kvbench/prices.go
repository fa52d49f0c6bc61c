// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

// pricesExample is a file of prices.
const pricesExample = `currency: USD
hours_per_month: 730        # unless you say otherwise: 8760 hours a year, by 12
cluster:                    # what is measured
  - {kind: tikv, count: 3, per_hour: 1.248}
  - {kind: pd, count: 3, per_month: 62.05}
clients:                    # may be left out
  - {kind: worker, count: 2, per_hour: 0.68}
`

func pricesCommand() *cobra.Command {
	return &cobra.Command{Use: "prices", Short: "What a file for --prices looks like", Long: `A file for --prices says what the nodes of the cluster and of its clients cost, in YAML:

` + pricesExample + `
Each kind of nodes has a count, and a price of one of them, per_hour or per_month. It holds prices alone, and no
results keep it. docs/cost.md says what is made of it.`}
}
