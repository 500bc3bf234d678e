"""Small logs in the forms of other systems, made up for the tests; none of their lines is anybody's data."""

from __future__ import annotations

import json
from pathlib import Path

PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-02 10:00:00,90.0,1,90.0,blue
2017-10-01 09:00:00,7200.0,16,115200.0,6214e9
2017-10-03 00:00:00,40000.5,12,480006.0,blue
"""

PHILLY_JOBS = [
    {
        "jobid": "application_1_0001", "vc": "blue", "user": "u1", "status": "Pass",
        "submitted_time": "2017-10-02 10:00:00",
        "attempts": [
            {
                "start_time": "2017-10-02 10:05:00", "end_time": "2017-10-02 10:06:00",
                "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}],
            },
            {
                "start_time": "2017-10-02 11:00:00", "end_time": "2017-10-02 12:00:00",
                "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu6", "gpu7"]}],
            },
            {"start_time": "2017-10-02 13:00:00", "end_time": None, "detail": []},
        ],
    },
    {
        "jobid": "application_1_0002", "vc": "green", "user": None, "status": "Killed",
        "submitted_time": "2017-10-01 10:00:00", "attempts": [],
    },
    {
        "jobid": "application_1_0003", "vc": "green", "user": "u2", "status": "Failed",
        "submitted_time": "2017-10-03 10:00:00",
        "attempts": [
            {
                "start_time": "2017-10-03 10:00:10", "end_time": "2017-10-03 10:00:20",
                "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1", "gpu2"]}, {"ip": "m2", "gpus": ["gpu0"]}],
            },
            {
                "start_time": "2017-10-03 10:01:00", "end_time": "2017-10-03 10:01:05",
                "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}],
            },
        ],
    },
]  # fmt: skip
PHILLY_JSON = json.dumps(PHILLY_JOBS, indent=1)

ITP = """job_id,submission_time,duration,num_gpu
j-1,100,600,1
j-2,50,30000,64
j-3,2592000,700,8
"""

KALOS = """job_id,submit_s,duration_s,node_num,gpu_num,type
0,0,104.0,8,64,Other
1,500,30.5,127,1016,Pretrain
2,900,60.0,1,2,Other
"""

ACME = """job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,type,state,submit_time,start_time,duration
d1,u1,2,16,240,1000,Pretrain,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,18
d2,u1,1,0,16,100,Other,COMPLETED,2023-05-17 11:10:00+00:00,2023-05-17 11:11:00+00:00,60
d3,u2,1,4,64,500,SFT,CANCELLED,2023-05-17 20:00:00+08:00,,
"""

OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,\
scheduled_time
p1,12000,16384,1,1000,,LS,Running,0,5000,10.0
p2,6000,12288,1,460,,LS,Running,10,5000,20.0
p3,64000,262144,8,1000,V100M16|V100M32|V100M32,BE,Succeeded,20,5000,120.0
p4,4000,8192,0,0,,LS,Running,30,5000,40.0
p5,4000,8192,1,1000,,LS,Pending,40,5000,
"""

HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,ua,vcA,1,4,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:51:01,600,0
12,ub,vcB,16,64,2,FAILED,2020-06-09 18:42:01,2020-06-09 18:43:01,2020-06-10 18:43:01,86400,60
13,ub,vcB,0,8,1,COMPLETED,2020-06-09 18:43:01,2020-06-09 18:43:01,2020-06-09 18:44:01,60,0
14,uc,vcA,8,8,1,CANCELLED,2020-06-09 18:44:01,None,2020-06-09 18:45:01,0,60
"""

SWF = """; Version: 2.2
; UnixStartTime: 1000000000
;
    1     10   5   100  16 -1 -1   32  7200 -1 1  3 1 -1 2 1 -1 -1
2 20 0 50.5 -1 -1 -1 4 -1 -1 0 -1 1 -1 2 1 -1 -1
3 30 0 20 8 -1 -1 8 60 -1 2 3 1 -1 2 1 -1 -1
4 40 -1 -1 -1 -1 -1 8 60 -1 5 3 1 -1 2 1 -1 -1
"""

SACCT = """JobID|Account|User|Submit|Start|Elapsed|State|AllocTRES|ReqTRES|NNodes|Timelimit
101|nlp|ann|2026-10-01T08:00:00|2026-10-01T08:10:00|1-02:00:00|COMPLETED|billing=64,cpu=64,gres/gpu:h100=16,gres/gpu=16,mem=512G,node=2|cpu=64,gres/gpu=16,mem=512G,node=2|2|2-00:00:00
101.batch|nlp||2026-10-01T08:10:00|2026-10-01T08:10:00|1-02:00:00|COMPLETED|cpu=32,gres/gpu=8,mem=256G,node=1||1|
102|nlp|bob|2026-10-01T09:00:00|2026-10-01T09:00:10|00:30:00|NODE_FAIL|cpu=8,gres/gpu=8,node=1|cpu=8,gres/gpu:h100=8,node=1|1|UNLIMITED
102|nlp|bob|2026-10-01T09:30:10|2026-10-01T09:40:00|01:00:00|CANCELLED by 1001|cpu=8,gres/gpu=8,node=1|cpu=8,gres/gpu:h100=8,node=1|1|UNLIMITED
103_1|vis|cat|2026-10-01T10:00:00|Unknown|00:00:00|CANCELLED by 1001||cpu=8,gres/gpu=8,node=1|1|01:00:00
104|vis|cat|2026-10-01T10:00:00|2026-10-01T10:00:00|05:00|TIMEOUT|cpu=8,node=1|cpu=8,node=1|1|00:05:00
105|vis|cat|2026-10-01T11:00:00|2026-10-01T11:00:00|00:10:00|RUNNING|cpu=8,gres/gpu:h100=12,mem=62.50G,node=2|gres/gpu=12|2|Partition_Limit
"""  # noqa: E501

QUOTA = """date,vcA,vcB,total
2020-06-02,16,48,64
2020-06-01,16,32,48
2020-06-03,0,48,48
"""

LOGS = {
    "philly": {"philly.csv": PHILLY, "jobs.json": PHILLY_JSON},
    "itp": {"cluster09.csv": ITP},
    "kalos": {"kalos.csv": KALOS, "trace_kalos.csv": ACME},
    "openb": {"pods.csv": OPENB},
    "helios": {"log.csv": HELIOS},
    "swf": {"log.swf": SWF},
    "sacct": {"sacct.txt": SACCT},
}
"""Files of each format, by name."""


def put(folder: Path, name: str, text: str) -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path
