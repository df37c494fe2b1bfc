// Package batchparts tests the parts of examples/batch without a gateway and without Airflow: its tasks, its worker
// before an API that is made up, and the DAG by a stand-in for what it uses of Airflow.
package batchparts
