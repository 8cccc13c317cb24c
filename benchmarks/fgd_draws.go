// The draws of FGD's published runs: which pods arrive in which order, and which place each node has among equals.
//
//	go run benchmarks/fgd_draws.go PODS.csv 1213 6212 42 > openb_pod_list_default.42
//
// Arguments: a workload of openb, how many nodes and GPUs the cluster has, a seed. The first line that is written has the rows of the workload in the
// order of arrival, the second the place of each node, in the order of the list. Only Go draws so: math/rand with the published seeds, in the order in
// which the published simulator draws from it. Ten numbers are lost between the two lines: its informers take them.
package main

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strconv"
)

const (
	demand = 1.3 // of the GPUs
	lost   = 10
	milli  = 1000
)

type pod struct {
	name       string
	all, share int // milli-GPU in all, and of each device
	row        int
}

func main() {
	if len(os.Args) != 5 {
		fail("expected PODS.csv NODES GPUS SEED")
	}
	pods := read(os.Args[1])
	nodes, gpus, seed := number(os.Args[2]), number(os.Args[3]), number(os.Args[4])
	chance := rand.New(rand.NewSource(int64(seed)))
	chance.Int()
	sort.Slice(pods, func(i, j int) bool { return pods[i].name < pods[j].name })
	workload := append([]pod{}, pods...)
	chance.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	pods = tuned(pods, workload, demand*float64(gpus*milli), chance)
	for i := 0; i < lost; i++ {
		chance.Float64()
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, one := range pods {
		fmt.Fprint(out, one.row, " ")
	}
	fmt.Fprintln(out)
	for _, place := range chance.Perm(nodes) {
		fmt.Fprint(out, place, " ")
	}
	fmt.Fprintln(out)
}

// Pods are taken away until they ask for no more than so many milli-GPU, or some of the workload added again until one is drawn with which it would be more, of
// a pod for several GPUs only one counted. That last one is drawn in any case, and left out.
func tuned(pods, workload []pod, wanted float64, chance *rand.Rand) []pod {
	asked := 0
	for _, one := range pods {
		asked += one.all
	}
	for float64(asked) > wanted {
		i := chance.Intn(len(pods))
		asked -= pods[i].all
		pods = append(pods[:i], pods[i+1:]...)
		if float64(asked) <= wanted {
			return pods
		}
	}
	for {
		one := workload[chance.Intn(len(workload))]
		if float64(asked+one.share) > wanted {
			return pods
		}
		asked += one.all
		pods = append(pods, one)
	}
}

func read(path string) []pod {
	file, err := os.Open(path)
	if err != nil {
		fail(err.Error())
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		fail(err.Error())
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	var pods []pod
	for i, row := range rows[1:] {
		count, share := number(row[column["num_gpu"]]), 0
		if count > 0 {
			share = number(row[column["gpu_milli"]])
		}
		pods = append(pods, pod{row[column["name"]], count * share, share, i})
	}
	return pods
}

func number(text string) int {
	found, err := strconv.Atoi(text)
	if err != nil {
		fail(err.Error())
	}
	return found
}

func fail(why string) {
	fmt.Fprintln(os.Stderr, "fgd_draws:", why)
	os.Exit(2)
}
